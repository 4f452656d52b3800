// The CDK CLI asks every five seconds how far CloudFormation is: here, twenty times as often.
const { setTimeout: later } = globalThis;
globalThis.setTimeout = Object.assign((call, ms, ...rest) => later(call, ms / 20, ...rest), later);
