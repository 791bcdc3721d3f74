import { z } from 'zod';
import { Id, isStorableJson, listOf, nfcText, noneBefore, Timestamp } from '../../platform/http/fields.ts';
import { pageOf, PageQuery } from '../../platform/http/pagination.ts';
import { LOG_PAGE_MAX, LogConditions, LogEntry, LogNameOnly, LogQuerySummary } from '../../protocol/index.ts';
import { DeviceTarget } from '../device-targets/index.ts';
import { ConditionTimes } from '../logs/index.ts';

export const Outcome = z.enum(['waiting', 'asked', 'answered', 'failed', 'never_came', 'cancelled']);
export type Outcome = z.infer<typeof Outcome>;

const DAYS_MAX = 30;

/** The log and the conditions, as live queries have them. */
const NewQuestionQuery = z
  .strictObject({ ...LogNameOnly.shape, ...LogConditions.shape, ...ConditionTimes })
  .superRefine(noneBefore('startTime', 'endTime'))
  .superRefine(isStorableJson);

/** The same as it is stored and sent to devices. */
export const QuestionQuery = z
  .object({
    ...LogNameOnly.shape,
    ...LogConditions.shape,
    startTime: z.string().optional(),
    endTime: z.string().optional(),
  })
  .meta({ id: 'EventLogQuestionQuery' });
export type QuestionQuery = z.infer<typeof QuestionQuery>;

export const NewQuestion = z.strictObject({
  orgId: Id.optional().describe('Leave it out in partner scope for devices of all organizations.'),
  name: nfcText(100).optional(),
  target: DeviceTarget.describe(
    'The devices are found out once, when the question is made: devices that match later are not asked.',
  ),
  query: NewQuestionQuery,
  days: z.number().int().min(1).max(DAYS_MAX).default(7).describe('For how long devices are waited for.'),
  atMostRowsPerDevice: z
    .number()
    .int()
    .min(1)
    .max(LOG_PAGE_MAX)
    .default(50)
    .describe('The most entries from each device, the newest ones.'),
});
export type NewQuestion = z.infer<typeof NewQuestion>;

const count = () => z.number().int();

export const Question = z
  .object({
    id: z.uuid(),
    orgId: z.uuid().nullable().describe('Null: it concerns all organizations of the partner.'),
    partnerId: z.uuid(),
    name: z.string().nullable(),
    target: DeviceTarget,
    query: QuestionQuery,
    days: count(),
    atMostRowsPerDevice: count(),
    status: z
      .enum(['open', 'over', 'cancelled'])
      .describe('`over`: every device has an outcome. `cancelled`: no further devices are asked.'),
    devices: count().describe('How many devices were to be asked.'),
    outcomes: z
      .object({
        waiting: count().describe('Not connected since, or about to be asked.'),
        asked: count().describe('Being asked at this moment.'),
        answered: count(),
        failed: count(),
        neverCame: count().describe('Not connected until the end of the question.'),
        cancelled: count(),
        gone: count().describe('Deleted since, or moved out of your organizations.'),
      })
      .describe('How many devices have which outcome.'),
    createdBy: z.uuid().nullable().describe('Null if the account was deleted.'),
    authorName: z.string().describe('The name of the author when the question was made.'),
    createdAt: Timestamp,
    endsAt: Timestamp.describe(
      'Devices that come later are not asked. The question is removed 30 days later.',
    ),
    cancelledAt: Timestamp.nullable(),
  })
  .meta({ id: 'EventLogQuestion' });
export type Question = z.input<typeof Question>;

export const QuestionQueryString = PageQuery.extend({
  orgId: Id.optional().describe('Only questions of this organization.'),
});
export type QuestionQueryString = z.infer<typeof QuestionQueryString>;
export const QuestionPage = pageOf(Question);

export const QuestionDevice = z
  .object({
    deviceId: z.uuid(),
    orgId: z.uuid(),
    hostname: z.string(),
    displayName: z.string().nullable(),
    outcome: Outcome,
    code: z.string().nullable().describe('Of `failed`: the reason, for programs.'),
    message: z.string().nullable().describe('Of `failed`: the reason, for people.'),
    askedAt: Timestamp.nullable().describe('When it was asked last.'),
    endedAt: Timestamp.nullable(),
    entries: count().describe('How many entries are stored.'),
  })
  .meta({ id: 'EventLogQuestionDevice' });
export type QuestionDevice = z.input<typeof QuestionDevice>;

export const QuestionDeviceQuery = PageQuery.extend({ outcome: listOf(Outcome) });
export type QuestionDeviceQuery = z.infer<typeof QuestionDeviceQuery>;
export const QuestionDevicePage = pageOf(QuestionDevice);

export const QuestionDeviceParams = z.object({ id: Id, deviceId: Id });
export type QuestionDeviceParams = z.infer<typeof QuestionDeviceParams>;

export const Answer = z
  .object({
    device: QuestionDevice,
    data: z.array(LogEntry).describe('Newest first.'),
    truncated: z
      .boolean()
      .describe('The device stopped before it had read everything, or entries were left out.'),
    leftOut: count().describe('Entries that the server did not keep, because they were too large.'),
    summary: LogQuerySummary.nullable().describe(
      'What the device said about its reading. Null if it has not answered.',
    ),
  })
  .meta({ id: 'EventLogAnswer' });
export type Answer = z.input<typeof Answer>;
