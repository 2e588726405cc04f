// 1. Connect and wait (do NOT send handshake!)
ws = new WebSocket("wss://proxy.example.com/extension");

ws.onopen = () => {
  // Do NOT send handshake! Wait for proxy to request authentication
  console.log("Connected, waiting for proxy auth request...");
};

// 2. Respond to proxy's authenticate request
ws.onmessage = (event) => {
  const msg = JSON.parse(event.data);

  // Proxy's auth request (id starts with "proxy:")
  if (msg.id && msg.id.startsWith("proxy:") && msg.method === "authenticate") {
    send({
      id: msg.id,  // Use SAME ID from request
      result: {
        name: "Chrome 141",
        accessToken: getStoredToken()
      }
    });
    return;
  }

  // Forwarded command from MCP (numeric id)
  if (msg.id && msg.method) {
    handleCommand(msg.method, msg.params)
      .then(result => {
        send({ id: msg.id, result: result || {} });  // ALWAYS include result
      })
      .catch(error => {
        send({ id: msg.id, error: { code: -32000, message: error.message }});
      });
    return;
  }

  // Notification (no id) - just log
  if (msg.method && !msg.id) {
    console.log("Notification:", msg.method, msg.params);
  }
};
