"""Highlighting of `.tir` text on the site."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Text

_NAME = r"[A-Za-z_$.][\w$.]*"
_TYPE = r"(?:i(?:1|8|16|32|64)|b?f(?:16|32|64)|f\d+e\w+|void|token|mbarrier|tensor_desc)"


class TirLexer(RegexLexer):
    """The tokens of `.tir`. A mnemonic is the first word of a line, or follows results or `@%p`."""

    name = "tir"
    tokens = {
        "root": [
            (r";.*?$", Comment.Single),
            (r'"(?:[^"\\]|\\.)*"', String),
            (rf"(@?%[\w$.]+)( = | )({_NAME})", bygroups(Name.Variable, Text, Name.Builtin)),
            (rf"^(  )({_NAME})", bygroups(Text, Name.Builtin)),
            (r"[%#][\w$.]+", Name.Variable),
            (r"@[\w$.]+", Name.Function),
            (rf"^{_NAME}:", Name.Label),
            (
                r"\b(?:tir|stage|metadata|define|declare|global|constant|kernel|private|linkonce"
                r"|weak|external|layout)\b(?! *=)",
                Keyword,
            ),
            (rf"\b{_TYPE}\b", Keyword.Type),
            (r"-?\b\d[\w.]*", Number),
            (_NAME, Name),
            (r"\n|[ \t]+", Text),
            (r".", Punctuation),
        ]
    }
