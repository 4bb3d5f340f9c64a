/**
 * Client for Turnwire.
 *
 * {@link Turnwire.streamChat} sends a message and calls back as the answer is made;
 * {@link Turnwire.followRun} yields every event of a run. Both reconnect by themselves.
 */

export { Turnwire } from "./client.js";
export type { Approval, ChatResult, CommandOptions, InputReply, StreamChatOptions } from "./client.js";
export type { ChatCallbacks } from "./callbacks.js";
export type { ConnectionOptions } from "./connection.js";
export {
  ApiError,
  AuthenticationError,
  ConflictError,
  ConnectionLostError,
  NotFoundError,
  RunFailedError,
  TurnwireError,
  UnavailableError,
} from "./errors.js";
export type { FollowOptions } from "./follow.js";
export type { AgentToolBlockUpdateParams, Message, MessageManagerCallbacks, ToolBlock } from "./messages.js";
export type { RetryOptions } from "./retry.js";
export type * from "./generated/api.js";
