export type McpTool = {
    name: string;
    title?: string;
    description?: string;
    inputSchema?: object;
    annotations?: {
        title?: string;
        readOnlyHint?: boolean;
    };
    [member: string]: unknown;
};
export type WebMcpLogger = Record<"info" | "warn" | "error", (message: string) => void>;
export type WebMcpOptions = {
    url: string;
    headers?: Record<string, string>;
    getHeaders?: () => Promise<Record<string, string>> | Record<string, string>;
    watch?: boolean;
    prefix?: string;
    timeoutMs?: number;
    logger?: WebMcpLogger;
    quiet?: boolean;
    onSync?: (tools: McpTool[]) => void;
    onError?: (error: Error) => void;
    filter?: (tool: McpTool) => boolean;
    mapTool?: (tool: McpTool) => McpTool;
};
export type WebMcpHandle = {
    readonly tools: ReadonlyArray<string>;
    readonly disposed: boolean;
    refresh(): Promise<void>;
    dispose(): Promise<void>;
};
export declare function registerWebMcp(options: WebMcpOptions): Promise<WebMcpHandle>;
