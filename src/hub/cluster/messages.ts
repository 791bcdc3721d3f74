import { z } from 'zod';
import type { TopicMessage } from '../../platform/cluster/cluster-events.ts';
import { COMMAND_TYPES, MachineIdentity, TerminalControl } from '../../protocol/index.ts';

/**
 * Messages between nodes about one device. They are parsed on arrival, because the bus is not trusted. Nodes of different
 * versions exchange them during an upgrade, so names and fields must stay readable for the release before.
 */

/** A live query for the node that owns the device. */
export const QueryFrame = z.object({
  kind: z.literal('ask'),
  id: z.string(),
  deviceId: z.string(),
  type: z.enum(COMMAND_TYPES),
  payload: z.unknown(),
  deadline: z.number(),
  /** The time left until the deadline, for a node whose clock differs. */
  leftMs: z.number().optional(),
  maxRows: z.number(),
});
export type QueryFrame = z.infer<typeof QueryFrame>;

const Failure = z.union([
  z.object({
    reason: z.enum([
      'offline',
      'disconnected',
      'busy',
      'timeout',
      'cancelled',
      'node_lost',
      'unavailable',
      'capability_missing',
    ]),
  }),
  z.object({ reason: z.literal('agent'), code: z.string(), message: z.string() }),
]);

const Work = z.object({ kind: z.literal('work'), deviceId: z.string() });
const CancelCommand = z.object({ kind: z.literal('cancel_command'), deviceId: z.string(), id: z.string() });
const Disconnect = z.object({ kind: z.literal('disconnect'), deviceId: z.string() });
const Decommissioned = z.object({ kind: z.literal('decommissioned'), deviceId: z.string() });

/** A notice about a device for the node that owns it. */
export type DeviceNotice = z.infer<
  typeof Work | typeof CancelCommand | typeof Disconnect | typeof Decommissioned
>;

export const DeviceMessage = z.discriminatedUnion('kind', [
  QueryFrame,
  z.object({ kind: z.literal('rows'), id: z.string(), rows: z.array(z.unknown()) }),
  z.object({
    kind: z.literal('answer'),
    id: z.string(),
    output: z.unknown(),
    /** How many rows were sent before it. A server of the former release does not say. */
    rowCount: z.number().optional(),
  }),
  z.object({ kind: z.literal('failure'), id: z.string(), failure: Failure }),
  z.object({ kind: z.literal('cancel'), id: z.string(), deviceId: z.string(), failure: Failure }),
  z.object({ kind: z.literal('terminal'), deviceId: z.string(), control: TerminalControl }),
  z.object({ kind: z.literal('superseded'), deviceId: z.string(), epoch: z.number() }),
  Work,
  CancelCommand,
  Disconnect,
  Decommissioned,
]);
export type DeviceMessage = z.infer<typeof DeviceMessage>;

const Challenge = z.object({
  deviceId: z.string(),
  /** The boot id of the program that wants to connect; left out if any program that holds the device is meant. */
  bootId: z.string().optional(),
  /** Challenges the holder even if it has the same boot id. */
  isContested: z.boolean(),
});
/** Asks whether a program holds a device and is alive. */
export type Challenge = z.infer<typeof Challenge>;

/** Whether a device is held on another node. A node of an earlier release does not answer. */
export const IdentityMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('challenge'), id: z.string(), challenge: Challenge }),
  z.object({
    kind: z.literal('challenged'),
    id: z.string(),
    holder: z.object({ bootId: z.string(), ip: z.string(), ...MachineIdentity.shape }).nullable(),
  }),
]);
export type IdentityMessage = z.infer<typeof IdentityMessage>;

/** Everything that goes over the bus. */
export type HubMessage = DeviceMessage | IdentityMessage | TopicMessage;
