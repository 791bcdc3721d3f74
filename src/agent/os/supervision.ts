import { z } from 'zod';
import { UpgradableComponent } from '../../../protocol/index.ts';

/** What a watchdog and the program that it supervises say to each other over the channel between them. */

/**
 * What an agent is asked to prove about itself. What the release before an upgrade could do, the one after it must do as
 * well; the socket is watched by `connection` and `heartbeat`.
 */
export const HealthCheck = z.enum(['live_query', 'event_log', 'command_ledger']);
export type HealthCheck = z.infer<typeof HealthCheck>;

const HealthReport = z.object({
  works: z.array(HealthCheck),
  faults: z.array(z.object({ check: HealthCheck, message: z.string() })),
});
export type HealthReport = z.infer<typeof HealthReport>;

/** From the agent, or from a watchdog on trial, which passes on what its agent says. */
export const FromChild = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('hello'),
    component: UpgradableComponent,
    version: z.string().max(50),
    /** What it can be asked to prove; absent for releases that cannot be asked. Names of later releases are left out. */
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
  /** The answer to `check`. */
  HealthReport.extend({ type: z.literal('health') }),
  /** The server has acknowledged a heartbeat. */
  z.object({ type: z.literal('heartbeat') }),
  z.object({
    type: z.literal('install'),
    component: UpgradableComponent,
    version: z.string().max(50),
    sha256: z.string().max(64),
    attemptId: z.uuid(),
    /** The server names exactly this version, also where it is lower than what has run here. */
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
    /** During a trial: how often a heartbeat is wanted, whatever the server asks for. */
    beatEveryMs: z.number().positive().optional(),
  }),
  z.object({ type: z.literal('ping'), id: z.number() }),
  /** Asks what the agent can do now; answered by `health`. */
  z.object({ type: z.literal('check') }),
  /** Ends in good order. */
  z.object({ type: z.literal('stop') }),
  /** The answer to `install`: without a code, the switch is on its way, and `stop` follows. */
  z.object({
    type: z.literal('install_answer'),
    attemptId: z.string(),
    code: z.string().optional(),
    message: z.string().optional(),
  }),
]);
export type ToChild = z.infer<typeof ToChild>;
