import type {
  CommandOutput,
  CommandPayload,
  CommandProgress,
  CommandRow,
  DurableCommandType,
  SecretRef,
} from '../../protocol/index.ts';

/** The reason of an aborted signal where the agent stops. Otherwise the command was cancelled. */
export const AGENT_STOPS = new Error('The agent stops.');

/** What a handler of a durable command gets besides its payload. */
export interface DurableContext<T extends DurableCommandType> {
  /**
   * Aborted when the command is cancelled or, with the reason `AGENT_STOPS`, when the agent stops. The handler then ends what it has started, and rejects.
   * When the agent stops, it waits for this as long as the handler has declared (`stopMs`).
   */
  signal: AbortSignal;
  /**
   * Streams rows, one frame at most, to the people who watch; without a connection they are dropped. Resolves when the
   * hub has received them or will not receive them.
   */
  rows: (rows: readonly CommandRow<T>[]) => Promise<void>;
  /** The value behind a reference in the payload. It is in memory only. */
  secret: (ref: SecretRef) => string;
  /** Reports may come as often as is convenient: one a second is sent, and the last one always. */
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

/** A handler that needs longer than `DEFAULT_STOP_MS` to end in good order declares how long the agent waits for it. */
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
