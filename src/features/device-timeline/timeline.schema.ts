import { z } from 'zod';
import { listOf, Timestamp } from '../../platform/http/fields.ts';
import { pageQuery } from '../../platform/http/pagination.ts';
import { CommandStatus, PresenceReason } from '../../protocol/index.ts';
import { AlertSeverity, AlertStatus } from '../alerts/index.ts';
import { MembershipReason } from '../groups/index.ts';

export const TimelineKind = z.enum([
  'presence',
  'alert',
  'command',
  'backup',
  'upgrade',
  'software',
  'terminal',
  'group',
  'change',
  'note',
]);
export type TimelineKind = z.infer<typeof TimelineKind>;

const common = {
  id: z.string().describe('Unique within its kind. The id of the record, if there is one.'),
  at: Timestamp.describe('When it happened or began.'),
  endedAt: Timestamp.nullable().describe('When it ended; null if it has not, or takes no time.'),
  by: z
    .object({
      id: z.uuid().nullable(),
      name: z
        .string()
        .describe('The present name, or the one of that time if the person is not known any more.'),
    })
    .nullable()
    .describe('The person who caused it; null if none did.'),
};

/** One thing that has happened to a device. */
export const TimelineEntry = z
  .discriminatedUnion('kind', [
    z.object({
      ...common,
      kind: z.literal('presence'),
      state: z.enum(['connected', 'disconnected']),
      reason: PresenceReason,
    }),
    z.object({
      ...common,
      kind: z.literal('alert'),
      title: z.string(),
      severity: AlertSeverity,
      status: AlertStatus,
    }),
    z.object({
      ...common,
      kind: z.literal('command'),
      type: z.string(),
      scriptName: z.string().nullable(),
      runId: z.uuid().nullable().describe('The script run that the command is part of.'),
      status: CommandStatus,
    }),
    z.object({
      ...common,
      kind: z.literal('backup'),
      task: z.string().describe('Such as backup, restore, verification or vault_sync.'),
      status: z.string(),
      error: z.string().nullable(),
    }),
    z.object({
      ...common,
      kind: z.literal('upgrade'),
      component: z.string(),
      fromVersion: z.string().nullable(),
      toVersion: z.string(),
      state: z.string(),
      error: z.string().nullable(),
    }),
    z.object({
      ...common,
      kind: z.literal('software'),
      installed: z.number().int(),
      updated: z.number().int(),
      removed: z.number().int(),
      names: z.array(z.string()).describe('The first of them, by name.'),
    }),
    z.object({ ...common, kind: z.literal('terminal'), reason: z.string().nullable() }),
    z.object({
      ...common,
      kind: z.literal('group'),
      groupId: z.uuid(),
      groupName: z.string(),
      change: z.enum(['joined', 'left']),
      reason: MembershipReason,
    }),
    z.object({
      ...common,
      kind: z.literal('change'),
      action: z.string(),
      result: z.enum(['success', 'failure', 'denied']),
      fields: z.array(z.string()).describe('The fields that were changed.'),
    }),
    z.object({
      ...common,
      kind: z.literal('note'),
      text: z.string(),
      isPinned: z.boolean(),
      editedAt: Timestamp.nullable(),
    }),
  ])
  .meta({ id: 'TimelineEntry' });
export type TimelineEntry = z.infer<typeof TimelineEntry>;

export const Timeline = z
  .object({
    data: z.array(TimelineEntry),
    next: z.string().nullable().describe('`before` for the entries that follow; null if there are none.'),
    hidden: z.array(TimelineKind).describe('Kinds that the caller may not read.'),
  })
  .meta({ id: 'Timeline' });
export type Timeline = z.input<typeof Timeline>;

/** The place of an entry in the order of the timeline, which is by all three. */
export interface TimelinePlace {
  at: Date;
  kind: string;
  id: string;
}

const PLACE = /^(\d{1,15})\.([a-z]{1,20})\.([\w-]{1,40})$/;

/** As `next` has it, and `before`. */
export const placeText = ({ at, kind, id }: TimelinePlace): string => `${at.getTime()}.${kind}.${id}`;

export const TimelineQuery = z.object({
  limit: pageQuery().shape.limit,
  kinds: listOf(TimelineKind),
  before: z
    .string()
    .regex(PLACE, 'must be the value of `next` of an earlier answer')
    .transform((text): TimelinePlace => {
      const [, at, kind = '', id = ''] = PLACE.exec(text) ?? [];
      return { at: new Date(Number(at)), kind, id };
    })
    .optional()
    .meta({ type: 'string', description: 'The value of `next` of an earlier answer.' }),
});
export type TimelineQuery = z.infer<typeof TimelineQuery>;
