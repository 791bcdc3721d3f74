import { z } from 'zod';
import { UpgradableComponent } from '../../../protocol/index.ts';

/** What a watchdog and the program that it supervises say to each other over the channel between them. */

/** From the agent, or from a watchdog on trial, which passes on what its agent says. */
export const FromChild = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), component: UpgradableComponent, version: z.string().max(50) }),
  z.object({ type: z.literal('pong'), id: z.number() }),
  z.object({
    type: z.literal('connection'),
    /** The socket is open. */
    isConnected: z.boolean(),
    /** Heartbeats arrive, over the socket or over HTTP. */
    reachesServer: z.boolean(),
  }),
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
