import { z } from 'zod';
import { CommandStatus } from '../../protocol/index.ts';
import { AlertSeverity, AlertStatus } from '../alerts/index.ts';

/**
 * Everything that can be sent to webhooks. Triggers of the database write these events (migrations/0019_webhooks.sql), so that
 * no way to cause one can be forgotten; test/server/features/webhooks/webhooks.test.ts compares both.
 */

const time = z.iso.datetime().nullable();
const failure = {
  errorCode: z.string().nullable(),
  errorMessage: z.string().nullable(),
};
const JobStatus = z.enum(['completed', 'partial', 'failed', 'cancelled']);

const alert = z.object({
  alertId: z.uuid(),
  deviceId: z.uuid().nullable().describe('Null if the alert concerns the whole organization.'),
  kind: z.string().describe('Such as device_offline.'),
  severity: AlertSeverity,
  status: AlertStatus,
  title: z.string(),
  message: z.string(),
  count: z.number().int(),
  raisedAt: z.iso.datetime(),
  resolvedAt: time,
  resolution: z.string().nullable().describe('Why it resolved automatically; null if a user resolved it.'),
});

const device = z.object({
  deviceId: z.uuid(),
  siteId: z.uuid(),
  hostname: z.string(),
  displayName: z.string().nullable(),
  osType: z.string(),
  osVersion: z.string(),
  agentVersion: z.string(),
});

interface EventType {
  description: string;
  /** A person who subscribes to it must hold this. */
  permission: string;
  /** Only webhooks of partners can have it, because it concerns no single organization. */
  isOfPartner?: true;
  data: z.ZodType<Record<string, unknown>>;
}

export const EVENT_TYPES = {
  'alert.raised': {
    description:
      'An alert was raised, or is active again. A device that is offline has the kind device_offline.',
    permission: 'alerts:read',
    data: alert,
  },
  'alert.acknowledged': {
    description: 'A user acknowledged an alert.',
    permission: 'alerts:read',
    data: alert,
  },
  'alert.resolved': {
    description: 'An alert was resolved, by a user or because its cause ended.',
    permission: 'alerts:read',
    data: alert,
  },
  'device.created': { description: 'A device was enrolled.', permission: 'devices:read', data: device },
  'device.decommissioned': {
    description: 'A device was decommissioned.',
    permission: 'devices:read',
    data: device,
  },
  'device.restored': {
    description: 'A decommissioned device was restored.',
    permission: 'devices:read',
    data: device,
  },
  'command.ended': {
    description: 'A command for a device ended. Its payload and output are left out.',
    permission: 'devices:read',
    data: z.object({
      commandId: z.uuid(),
      deviceId: z.uuid(),
      type: z.string(),
      status: CommandStatus,
      reason: z.string().nullable(),
      exitCode: z
        .number()
        .int()
        .nullable()
        .optional()
        .describe(
          'For a script that ran to its end, which is a command that has succeeded. Null if a signal ended it, and for all others.',
        ),
      executionId: z
        .uuid()
        .nullable()
        .describe('The execution of a script that was started on several devices.'),
      scriptId: z.uuid().nullable(),
      createdBy: z.uuid().nullable(),
      createdAt: z.iso.datetime(),
      startedAt: time,
      finishedAt: z.iso.datetime(),
    }),
  },
  'backup.job_ended': {
    description: 'A backup of a device ended.',
    permission: 'backup:read',
    data: z.object({
      jobId: z.uuid(),
      deviceId: z.uuid(),
      configId: z.uuid().nullable(),
      trigger: z.enum(['scheduled', 'manual']),
      status: JobStatus,
      addedBytes: z.number().nullable(),
      ...failure,
      startedAt: time,
      finishedAt: z.iso.datetime(),
    }),
  },
  'backup.restore_ended': {
    description: 'A restore to a device ended.',
    permission: 'backup:read',
    data: z.object({
      restoreId: z.uuid(),
      deviceId: z.uuid(),
      snapshotId: z.uuid().nullable(),
      isDryRun: z.boolean(),
      status: JobStatus,
      restoredFiles: z.number().nullable(),
      failedFiles: z.number(),
      ...failure,
      startedAt: time,
      finishedAt: z.iso.datetime(),
    }),
  },
  'cloud_backup.job_ended': {
    description: 'A backup or restore of Microsoft 365 ended.',
    permission: 'backup:read',
    data: z.object({
      jobId: z.uuid(),
      configId: z.uuid(),
      kind: z.enum(['backup', 'restore']),
      trigger: z.enum(['manual', 'schedule']),
      status: JobStatus,
      itemsProcessed: z.number(),
      itemsFailed: z.number(),
      ...failure,
      startedAt: time,
      finishedAt: z.iso.datetime(),
    }),
  },
  'rollout.halted': {
    description: 'The server halted the rollout of an agent version, because devices failed with it.',
    permission: 'agents:read',
    isOfPartner: true,
    data: z.object({
      rolloutId: z.uuid(),
      component: z.enum(['agent', 'watchdog']),
      version: z.string(),
      wave: z.number().int().describe('From 0.'),
    }),
  },
  'audit.recorded': {
    description: 'An entry of the audit trail was sealed.',
    permission: 'audit:read',
    data: z.object({
      entryId: z.uuid(),
      action: z.string().describe('Such as device.delete.'),
      result: z.enum(['success', 'failure', 'denied']),
      actorType: z.enum(['user', 'api_key', 'agent', 'system']),
      actorId: z.uuid(),
      resourceType: z.string(),
      resourceId: z.uuid().nullable(),
      resourceName: z.string().nullable(),
      recordedAt: z.iso.datetime(),
    }),
  },
} as const satisfies Record<string, EventType>;

export type EventTypeName = keyof typeof EVENT_TYPES;

const NAMES = Object.keys(EVENT_TYPES) as [EventTypeName, ...EventTypeName[]];

export const EventTypeName = z
  .enum(NAMES)
  .describe(NAMES.map((name) => `\`${name}\`: ${EVENT_TYPES[name].description}`).join('\n'));

/** Returns the types that this release knows: after a return to an earlier release, a webhook may want others. */
export const knownTypes = (names: readonly string[]): EventTypeName[] =>
  NAMES.filter((name) => names.includes(name));

/** Sent by `POST /webhooks/:id/test`. No webhook can subscribe to it. */
export const PING = 'webhook.ping';

/** The properties of a type, if this release knows it: another release may have written the event. */
export function eventType(name: string): EventType | undefined {
  const known = EventTypeName.safeParse(name);
  return known.success ? EVENT_TYPES[known.data] : undefined;
}
