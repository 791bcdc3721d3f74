import {
  type CommandOutput,
  type CommandPayload,
  type CommandProgress,
  type CommandRow,
  type DurableCommandType,
  type SecretRef,
  AgentErrorCode,
  COMMANDS,
  type CommandFrame,
  type CommandType,
} from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';

/** The abort reason if the agent stops. Otherwise the command was cancelled. */
export const AGENT_STOPS = new Error('The agent stops.');

/** The context of a durable command's handler, besides its payload. */
export interface DurableContext<T extends DurableCommandType> {
  /**
   * Aborted when the command is cancelled or, with the reason `AGENT_STOPS`, when the agent stops. The handler then
   * ends its processes and rejects. When the agent stops, it waits for this as long as the handler has declared
   * (`stopMs`).
   */
  signal: AbortSignal;
  /**
   * Streams rows, one frame at most, to dashboards that watch; without a connection they are dropped. Resolves when
   * the hub has received them or will not receive them.
   */
  rows: (rows: readonly CommandRow<T>[]) => Promise<void>;
  /** The value behind a reference in the payload. It is in memory only. */
  secret: (ref: SecretRef) => string;
  /** Reports may be frequent: one per second is sent, and always the last one. */
  progress: (progress: Progress) => void;
  /** Runs `act` when the hub has the result, or has not acknowledged it in time. */
  afterResult: (act: () => Promise<void>) => void;
}

export type Progress = Omit<CommandProgress, 'id' | 'seq'>;
export type AnyDurableContext = DurableContext<DurableCommandType>;

type Run<T extends DurableCommandType> = (
  payload: CommandPayload<T>,
  context: DurableContext<T>,
) => Promise<CommandOutput<T>>;

/** A handler that needs longer than `DEFAULT_STOP_MS` for a clean end declares how long the agent waits for it. */
type DurableHandler<T extends DurableCommandType> = Run<T> | { stopMs: number; run: Run<T> };

export type DurableHandlers = { [T in DurableCommandType]?: DurableHandler<T> };

export const DEFAULT_STOP_MS = 3000;

/** How long the agent waits for a command of this type when it stops. */
export function stopMsOf(handlers: DurableHandlers, type: string): number {
  const handler: unknown = Object.hasOwn(handlers, type)
    ? handlers[type as keyof typeof handlers]
    : undefined;
  return typeof handler === 'object' && handler !== null && 'stopMs' in handler
    ? Number(handler.stopMs)
    : DEFAULT_STOP_MS;
}

/** The handler of a frame's type, bound to the frame's checked payload. Throws `AgentError`. */
export function boundHandler<Context>(
  handlers: object,
  { type, payload }: Pick<CommandFrame, 'type' | 'payload'>,
): (context: Context) => Promise<unknown> {
  const handler = Object.hasOwn(handlers, type) ? handlers[type as keyof typeof handlers] : undefined;
  if (!isKnown(type) || handler === undefined) {
    throw new AgentError(AgentErrorCode.capabilityMissing, `This agent does not support "${type}".`);
  }
  const parsed = COMMANDS[type].payload.safeParse(payload);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new AgentError(
      AgentErrorCode.invalidPayload,
      `${issue?.path.join('.') || 'payload'}: ${issue?.message ?? 'not valid'}`,
    );
  }
  // The table of handlers pairs each type with the schema that has just parsed its payload.
  const { run } = (typeof handler === 'function' ? { run: handler } : handler) as {
    run: (payload: unknown, context: Context) => Promise<unknown>;
  };
  return (context) => run(parsed.data, context);
}

function isKnown(type: string): type is CommandType {
  return Object.hasOwn(COMMANDS, type);
}
