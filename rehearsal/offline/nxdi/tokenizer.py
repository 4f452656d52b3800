"""A tokenizer of four characters a token, with the special tokens of the models that jobs serve."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rehearsal.golden.asked import CHARACTERS_PER_TOKEN
from rehearsal.offline.nxdi.tensor import Tensor

UNKNOWN: Final = "<unk>"
BEGIN: Final = "<s>"
END: Final = "</s>"
END_OF_TURN: Final = "<|im_end|>"
END_OF_TEXT: Final = "<|endoftext|>"
_SPECIAL: Final = (UNKNOWN, BEGIN, END, "<|im_start|>", END_OF_TURN, END_OF_TEXT)
"""By their ids. As with Llama 2, 0 and 2 are no words: NxDI's Medusa counts the ids that are not
0."""
_PARTS: Final = re.compile(f"({'|'.join(map(re.escape, _SPECIAL))})")


class Vocabulary:
    """Texts and their ids, which are given as the texts come."""

    def __init__(self) -> None:
        self._texts = [*_SPECIAL]
        self._ids = {text: index for index, text in enumerate(_SPECIAL)}

    def id(self, text: str) -> int:
        """The id of a text."""
        if text not in self._ids:
            self._ids[text] = len(self._texts)
            self._texts.append(text)
        return self._ids[text]

    def text(self, ids: Iterable[int], *, special: bool = True) -> str:
        """The text of tokens; without the special ones, if so asked.

        Any id is a token of a real vocabulary, also one that no text has yet got here.
        """
        texts = (self._texts[i] if i < len(self._texts) else UNKNOWN for i in ids)
        return "".join(text for text in texts if special or text not in _SPECIAL)


VOCABULARY: Final = Vocabulary()
"""Of this process: what generates and what reads it have one."""


@dataclass
class Tokenizer:
    """What transformers' tokenizers do, as far as ``inference_demo`` and its like call them."""

    chat_template: str | None
    eos_token: str
    begins: bool
    """Whether a text begins with a token of its own."""

    def __post_init__(self) -> None:
        self.pad_token = self.eos_token
        self.eos_token_id = self.pad_token_id = VOCABULARY.id(self.eos_token)

    @classmethod
    def of(cls, model_path: str) -> Tokenizer:
        """That of a checkpoint, known by its name: Vicuna's has no chat template."""
        if "vicuna" in model_path.lower():
            return cls(None, END, begins=True)
        return cls("<|im_start|>{role}\n{content}<|im_end|>\n", END_OF_TURN, begins=False)

    @property
    def ends(self) -> int | list[int]:
        """``eos_token_id`` of the checkpoint's generation_config.json."""
        if self.begins:
            return self.eos_token_id
        return [self.eos_token_id, VOCABULARY.id(END_OF_TEXT)]

    def save_pretrained(self, folder: str) -> None:
        """Leaves its files."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "tokenizer_config.json").write_text("{}", encoding="utf-8")

    def __call__(
        self, text: str | Sequence[str], return_tensors: str | None = None, **_options: Any
    ) -> Mapping[str, Any]:
        """Tokens and attention mask of one text."""
        (one,) = [text] if isinstance(text, str) else text
        return self._encoded([*([VOCABULARY.id(BEGIN)] if self.begins else ()), *_ids(one)])

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        return_dict: bool = False,
        return_tensors: str | None = None,
        **_variables: Any,
    ) -> Any:
        """A conversation as the model reads it. Raises ValueError where there is no template."""
        if self.chat_template is None:
            raise ValueError(
                "Cannot use chat template functions: tokenizer.chat_template is not set"
            )
        text = "".join(self.chat_template.format(**message) for message in messages)
        if add_generation_prompt:
            text += "<|im_start|>assistant\n"
        if not tokenize:
            return text
        encoded = self._encoded([*_ids(text)])
        return encoded if return_dict else encoded["input_ids"]

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False, **_options: Any) -> str:
        """The text of tokens."""
        return VOCABULARY.text(map(int, ids), special=not skip_special_tokens)

    def batch_decode(
        self, ids: Tensor, skip_special_tokens: bool = False, **_options: Any
    ) -> list[str]:
        """The text of each row."""
        return [self.decode(ids.row, skip_special_tokens)]

    @staticmethod
    def _encoded(ids: list[int]) -> dict[str, Tensor]:
        return {"input_ids": Tensor([ids]), "attention_mask": Tensor([[1] * len(ids)])}


def _ids(text: str) -> Iterator[int]:
    for part in _PARTS.split(text):
        step = len(part) if part in _SPECIAL else CHARACTERS_PER_TOKEN
        yield from (VOCABULARY.id(part[at : at + step]) for at in range(0, len(part), step or 1))
