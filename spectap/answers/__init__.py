"""What answers are: their form, their difference from the baseline's, and lm-eval's scores."""
