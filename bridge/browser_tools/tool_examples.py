"""One example of each tool of mcpb, for docs/BROWSER_TOOLS.md and `mcpb skill --examples`.

Tool descriptions have none of them: a model pays for these in every session.
"""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, dict[str, Any]] = {
    "list_page_tools": {"query": "cart", "schemas": True},
    "call_page_tool": {
        "name": "website_tool_shop_example_addToCart",
        "arguments": {"item": "green tea", "quantity": 2},
    },
    "read_resource": {"uri": "mcpb://page/shop.example/tab1/cart://1", "max_chars": 5000},
    "navigate": {"url": "https://shop.example/search?q=tea"},
    "tabs_context": {},
    "tabs_create": {},
    "tabs_context_mcp": {"createIfEmpty": True},
    "tabs_create_mcp": {},
    "tabs_close_mcp": {"tabId": 3},
    "resize_window": {"width": 1280, "height": 800},
    "read_page": {"filter": "interactive"},
    "find": {"query": "add to cart button of Hard Lamp"},
    "get_page_text": {"offset": 20000},
    "form_input": {"ref": "12", "value": "2026-11-22"},
    "fill_form": {
        "fields": [{"label": "E-mail", "value": "ada@shop.example"}, {"ref": "14", "value": True}],
        "submit": True,
    },
    "wait_for": {"text": "Order confirmed", "timeout": 20},
    "file_upload": {"paths": ["/home/ada/shop/invoice.pdf"], "ref": 'button "Choose a file"'},
    "upload_image": {"imageId": "img_1", "ref": "15", "filename": "cart.png"},
    "computer": {"action": "left_click", "ref": 'button "Add to cart" in "Hard Lamp"'},
    "gif_creator": {"action": "export", "download": True, "filename": "order.gif"},
    "read_console_messages": {"onlyErrors": True, "pattern": "payment|cart"},
    "read_network_requests": {"urlPattern": "/api/cart", "limit": 1},
    "javascript_tool": {"action": "javascript_exec", "text": "document.querySelectorAll('.item').length"},
    "update_plan": {
        "domains": ["shop.example"],
        "approach": ["Search for green tea", "Put two packets into the cart"],
    },
    "permissions_check": {"tool": "file_upload", "url": "https://shop.example/"},
    "shortcuts_list": {},
    "shortcuts_execute": {"command": "/report query='red apples' page=2"},
    "browser_batch": {
        "actions": [
            {"name": "navigate", "input": {"url": "https://shop.example/"}},
            {"name": "read_page", "input": {"filter": "interactive"}},
        ]
    },
    "list_connected_browsers": {},
    "select_browser": {"deviceId": "0c5d6f0e-6a4b-4c69-9a51-0d0a0f6e2b11"},
    "switch_browser": {},
    "turn_answer_start": {},
    "turn_answer_complete": {},
    "dev_utils": {"action": "echo", "text": "hello"},
}
"""Arguments by tool, in the order of the tool list."""
