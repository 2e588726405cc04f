// 1. Connect to proxy
ws = new WebSocket("wss://proxy.example.com/mcp");

// 2. Send handshake (MCP initiates, not proxy!)
ws.onopen = () => {
  send({ id: 1, method: "mcp_handshake", params: { accessToken: token }});
};

// 3. Wait for handshake response
onMessage(msg => {
  if (msg.id === 1 && msg.result) {
    // Authenticated! Can now list extensions and connect
    send({ id: 2, method: "list_extensions", params: {}});
  }
});

// 4. Connect to extension
onMessage(msg => {
  if (msg.id === 2 && msg.result) {
    const extensionId = msg.result.extensions[0].id;
    send({ id: 3, method: "connect", params: { extension_id: extensionId }});
  }
});

// 5. Use connection
onMessage(msg => {
  if (msg.id === 3 && msg.result) {
    connectionId = msg.result.connection_id;  // Store for later

    // Now can send tool commands
    send({
      id: 4,
      method: "createTab",
      params: { url: "..." },
      connectionId: connectionId
    });
  }
});
