import { z } from 'zod';
import { UpgradableComponent } from '../../protocol/index.ts';

/** Messages between a watchdog and the program that it supervises. */

/**
 * Self-checks of an agent. A new release must pass every check that the release before it has passed; the socket is
 * covered by `connection` and `heartbeat`.
 */
export const HealthCheck = z.enum(['live_query', 'event_log', 'command_ledger']);
export type HealthCheck = z.infer<typeof HealthCheck>;

const HealthReport = z.object({
  works: z.array(HealthCheck),
  faults: z.array(z.object({ check: HealthCheck, message: z.string() })),
});
export type HealthReport = z.infer<typeof HealthReport>;

/** From the agent, or from a watchdog on trial, which forwards its agent's messages. */
export const FromChild = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('hello'),
    component: UpgradableComponent,
    version: z.string().max(50),
    /** The supported checks; absent for releases without them. Names of later releases are ignored. */
    checks: z
      .array(z.string())
      .transform((names) => HealthCheck.options.filter((each) => names.includes(each)))
      .optional(),
  }),
  z.object({ type: z.literal('pong'), id: z.number() }),
  z.object({
    type: z.literal('connection'),
    /** The socket is open. */
    isConnected: z.boolean(),
    /** Heartbeats arrive, over the socket or over HTTP. */
    reachesServer: z.boolean(),
  }),
  /** The reply to `check`. */
  HealthReport.extend({ type: z.literal('health') }),
  /** The server has acknowledged a heartbeat. */
  z.object({ type: z.literal('heartbeat') }),
  z.object({
    type: z.literal('install'),
    component: UpgradableComponent,
    version: z.string().max(50),
    sha256: z.string().max(64),
    attemptId: z.uuid(),
    /** The server has pinned exactly this version, which may be lower than one that has run here. */
    isPinned: z.boolean(),
  }),
]);
export type FromChild = z.infer<typeof FromChild>;
export type InstallRequest = Extract<FromChild, { type: 'install' }>;

/** To the agent, or to a watchdog on trial. */
export const ToChild = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('welcome'),
    watchdogVersion: z.string(),
    programs: z.string(),
    /** Heartbeat interval during a trial, whatever the server asks for. */
    beatEveryMs: z.number().positive().optional(),
  }),
  z.object({ type: z.literal('ping'), id: z.number() }),
  /** Requests a self-check; the reply is `health`. */
  z.object({ type: z.literal('check') }),
  /** Requests a clean shutdown. */
  z.object({ type: z.literal('stop') }),
  /** The reply to `install`. Without a code, the switch has begun, and `stop` follows. */
  z.object({
    type: z.literal('install_answer'),
    attemptId: z.string(),
    code: z.string().optional(),
    message: z.string().optional(),
  }),
]);
export type ToChild = z.infer<typeof ToChild>;

/** The supervised program's end of the channel. */
interface ParentChannel {
  send(message: FromChild): void;
}

/** `undefined` if no watchdog has started this process. The channel itself answers pings. */
export function openParentChannel(on: {
  message: (message: ToChild) => void;
  /** The watchdog is gone. */
  closed: () => void;
}): ParentChannel | undefined {
  if (process.send === undefined) return undefined;
  const channel: ParentChannel = {
    send(message) {
      // If the watchdog has ended, `closed` reports it.
      if (process.connected) process.send?.(message, undefined, undefined, () => {});
    },
  };
  process.on('message', (raw) => {
    const message = ToChild.safeParse(raw);
    if (!message.success) return;
    if (message.data.type === 'ping') channel.send({ type: 'pong', id: message.data.id });
    else on.message(message.data);
  });
  process.on('disconnect', on.closed);
  return channel;
}
