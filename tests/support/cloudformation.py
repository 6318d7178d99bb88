"""Templates of CloudFormation as they are for some parameters: conditions decided, parameters filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email import message_from_string
from typing import Any, Final

import yaml

from support.run import ROOT

TEMPLATES: Final = ROOT / "deploy/aws"
PSEUDO: Final = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "eu-central-1",
    "AWS::StackName": "ferry",
    "AWS::URLSuffix": "amazonaws.com",
}
_NOTHING: Final = object()
"""A value that is left out (``AWS::NoValue``)."""


class _Loader(yaml.SafeLoader):
    """Reads ``!Ref x`` as ``{"Ref": "x"}``, as CloudFormation does."""


def _function(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    return {name if name in ("Ref", "Condition") else f"Fn::{name}": value}


_Loader.add_multi_constructor("!", _function)


class Template:
    """A template with these parameters; others have their defaults, or ``NAME`` where there is none."""

    def __init__(self, name: str, parameters: Mapping[str, str]) -> None:
        self.text = (TEMPLATES / f"{name}.yaml").read_text(encoding="utf-8")
        self._whole: dict[str, Any] = yaml.load(self.text, Loader=_Loader)
        defaults = {one: given.get("Default", one.upper()) for one, given in self._whole["Parameters"].items()}
        self._values = {**PSEUDO, **defaults}
        assert set(parameters) <= set(self._values)
        self._values |= parameters
        made = {
            one: resource
            for one, resource in self._whole["Resources"].items()
            if "Condition" not in resource or self._decide({"Condition": resource["Condition"]})
        }
        self.resources: dict[str, Any] = {one: self._fill(resource) for one, resource in made.items()}

    def properties(self, resource: str) -> dict[str, Any]:
        return self.resources[resource]["Properties"]

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Properties of all resources of a type, by their names."""
        return {one: found["Properties"] for one, found in self.resources.items() if found["Type"] == kind}

    def _decide(self, condition: Any) -> bool:
        [(name, value)] = condition.items()
        if name == "Condition":
            return self._decide(self._whole["Conditions"][value])
        if name == "Fn::Not":
            return not self._decide(value[0])
        assert name == "Fn::Equals"
        first, second = (self._fill(one) for one in value)
        return first == second

    def _fill(self, value: Any) -> Any:
        if isinstance(value, list):
            return [found for one in value if (found := self._fill(one)) is not _NOTHING]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(name, of)] = value.items()
            if name == "Ref":
                return _NOTHING if of == "AWS::NoValue" else self._values.get(of, of)
            if name == "Fn::If":
                return self._fill(of[1] if self._decide({"Condition": of[0]}) else of[2])
            if name == "Fn::Sub":
                text, named = of if isinstance(of, list) else (of, {})
                known = {**self._values, **{key: self._fill(one) for key, one in named.items()}}
                return re.sub(r"\$\{([^}]+)\}", lambda found: str(known.get(found[1], found[1])), text)
            if name == "Fn::GetAtt":
                return ".".join(of) if isinstance(of, list) else of
            if name in ("Fn::Base64", "Fn::Select"):
                return self._fill(of)
        return {key: found for key, one in value.items() if (found := self._fill(one)) is not _NOTHING}


def script(user_data: str) -> str:
    """The script of user data, as cloud-init takes it out."""
    [found] = [
        str(part.get_payload())
        for part in message_from_string(user_data).walk()
        if part.get_content_type() == "text/x-shellscript"
    ]
    return found
