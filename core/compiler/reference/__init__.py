"""The reference interpreter of HLO, and how far rounding may move its results."""


class NotEvaluatedError(ArithmeticError):
    """A series or fraction goes on, or sixty digits are not enough. (Generated code has other formulas there.)"""

    def __init__(self, function: str = "an incomplete gamma or beta function") -> None:
        super().__init__(f"{function} of very large or small parameters, by its series")


__all__ = ["NotEvaluatedError"]
