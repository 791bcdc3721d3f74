import { z } from 'zod';
import { Id, instantOrDay, JsonColumn, nfcText, noneBefore, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

const minutes = z.number().int().min(1).max(525_600);
const ids = z.array(Id).max(1000);

export const SlaConfig = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    name: z.string(),
    rpoTargetMinutes: z.number().int(),
    rtoTargetMinutes: z.number().int(),
    targetDevices: z.array(z.uuid()),
    targetGroups: z.array(z.uuid()),
    alertOnBreach: z.boolean(),
    isActive: z.boolean(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'BackupSlaConfig' });

const changeable = {
  name: nfcText(200),
  rpoTargetMinutes: minutes.describe('How old the newest snapshot may be.'),
  rtoTargetMinutes: minutes.describe('How long a restore may take, by the estimate.'),
  targetDevices: ids.optional(),
  targetGroups: ids.optional().describe('Without devices and groups: all devices that are backed up.'),
  alertOnBreach: z.boolean().optional().describe('Default true.'),
  isActive: z.boolean().optional().describe('Default true. Without it, nothing is a breach.'),
};

/** Each field replaces the stored one as a whole. */
export const SlaConfigPatch = z.strictObject(changeable).partial();
export type SlaConfigPatch = z.infer<typeof SlaConfigPatch>;

export const NewSlaConfig = z.strictObject({ orgId: Id, ...changeable });
export type NewSlaConfig = z.infer<typeof NewSlaConfig>;

export const SlaConfigQuery = PageQuery.extend({ orgId: Id.optional() });
export type SlaConfigQuery = z.infer<typeof SlaConfigQuery>;

export const EventType = z.enum(['rpo_breach', 'rto_breach', 'missed_backup']);

export const SlaEvent = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    slaConfigId: z.uuid().nullable(),
    deviceId: z.uuid(),
    eventType: EventType,
    details: JsonColumn,
    detectedAt: Timestamp,
    resolvedAt: Timestamp.nullable().describe('null: it lasts.'),
  })
  .meta({ id: 'BackupSlaEvent' });

export const SlaEventQuery = PageQuery.extend({
  orgId: Id.optional(),
  configId: Id.optional(),
  deviceId: Id.optional(),
  eventType: EventType.optional(),
  from: instantOrDay('begin').optional().describe('Detected at or after: an instant, or a day (UTC).'),
  to: instantOrDay('end').optional().describe('Detected at or before: an instant, or a day (UTC).'),
}).superRefine(noneBefore('from', 'to'));
export type SlaEventQuery = z.infer<typeof SlaEventQuery>;
