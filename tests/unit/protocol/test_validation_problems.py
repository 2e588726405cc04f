"""What is wrong with arguments, in words for those who gave them."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from bridge.browser_tools.session.call_context import Turn
from bridge.browser_tools.tool import Given, Tool
from bridge.browser_tools.tool_output import Answer, Told
from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments


class Cup(msgspec.Struct):
    """A part of what is given."""

    tea: Literal["green", "black"]


class Order(Given):
    """What is given."""

    size: Literal["small", "large"]
    sugar: Annotated[float, Meta(ge=0.5, le=30)] = 1
    count: int = 1
    place: Annotated[list[float], Meta(min_length=2, max_length=2)] = []
    name: Annotated[str, Meta(min_length=1)] = "Ada"
    cups: list[Cup] = []
    hot: bool | None = None


async def run(_given: Order, _turn: Turn) -> Answer:
    raise AssertionError


TOOL = Tool(name="order", title="", description="", given=Order, told=Told, run=run)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "size is missing"),
        ({"size": "huge"}, "size is one of large, small"),
        ({"milk": 1}, "there is no argument milk; there are size, sugar, count, place, name, cups, hot"),
        ({"sugar": 31}, "sugar is at most 30"),
        ({"sugar": 0}, "sugar is at least 0.5"),
        ({"sugar": "x"}, "sugar is a number, not text"),
        ({"count": 1.5}, "count is a whole number, not a number"),
        ({"place": [1]}, "place has at least 2 items"),
        ({"place": [1, 2, 3]}, "place has at most 2 items"),
        ({"place": [1, "x"]}, "place[1] is a number, not text"),
        ({"name": ""}, "name has at least 1 character"),
        ({"cups": {"tea": 1}}, "cups is a list, not an object"),
        ({"cups": [{}]}, "cups[0].tea is missing"),
        ({"cups": [{"tea": "red"}]}, "cups[0].tea is one of black, green"),
        ({"hot": [1]}, "hot is true or false or null, not a list"),
    ],
)
def test_it_names_the_argument_and_what_it_may_be(given: dict[str, Any], said: str) -> None:
    whole = {"size": "small", **given} if given else given
    with pytest.raises(CallError) as refused:
        TOOL.read(Arguments.of(whole))
    assert refused.value.detail == said
