"""`mcpb demo`: a page's tools, called by an MCP client."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import click


@click.command()
@click.option("--serve", "is_serving", is_flag=True, help="Only serve its page, for your own browser.")
@click.pass_context
def demo(ctx: click.Context, *, is_serving: bool) -> None:
    """Show the whole chain at work, in a throw-away browser profile."""
    if is_serving:
        from demo.serve import main as serve

        ctx.exit(serve())
    from demo.run import main as run_demo

    ctx.exit(run_demo())
