import { z } from 'zod';
import { topic } from '../../platform/cluster/cluster-events.ts';
import { DeviceStatus, DeviceSummary, Metrics, Presence } from '../../protocol/index.ts';

const Patch = z
  .object({
    presence: Presence,
    lastSeenAt: z.string().nullable(),
    metrics: Metrics.nullable(),
    status: DeviceStatus,
    agentVersion: z.string(),
    isReporting: z.boolean(),
  })
  .partial();

/** A change of a device as nodes send it to each other for their dashboards. */
export const FeedEvent = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('changed'),
    deviceId: z.string(),
    /** The epoch of the claim under which the presence in the patch was reported. */
    epoch: z.number().optional(),
    patch: Patch,
  }),
  z.object({ type: z.literal('entered'), device: DeviceSummary, partnerId: z.string() }),
  z.object({ type: z.literal('left'), deviceId: z.string() }),
]);
export type FeedEvent = z.infer<typeof FeedEvent>;

/** Live changes of devices. Each node sends its own to the others. */
export const FEED = topic('feed', z.object({ events: z.array(FeedEvent) }));

const DeviceIds = z.object({ deviceIds: z.array(z.string()) });

/** Stored records of devices have changed, or the devices are back in service. */
export const RECORDS_CHANGED = topic('records_changed', DeviceIds);

/** Devices have moved to another organization or site, so their agents must reconnect under the new identity. */
export const DEVICES_MOVED = topic('moved', DeviceIds);

/** Nodes may have missed changes and must read again what they show. */
export const CHANGES_MISSED = topic('missed', z.object({}));
