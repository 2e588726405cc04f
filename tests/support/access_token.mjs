// Adds the access token of `mcpb serve` to each HTTP request of a program that has no option for headers:
// node --import …/access_token.mjs. ACCESS_TOKEN: the token.
import http from "node:http";
import { getGlobalDispatcher, setGlobalDispatcher } from "undici";

const authorization = `Bearer ${process.env.ACCESS_TOKEN}`;

/** @param {import("undici").Dispatcher.DispatchOptions["headers"]} headers */
const withToken = (headers) =>
  Array.isArray(headers) ? [...headers, "authorization", authorization] : { ...headers, authorization };

setGlobalDispatcher(
  getGlobalDispatcher().compose(
    (dispatch) => (options, handler) =>
      dispatch({ ...options, headers: withToken(options.headers) }, handler),
  ),
);

const { request } = http;
http.request = (options, ...rest) =>
  request({ ...options, headers: { ...options.headers, authorization } }, ...rest);
