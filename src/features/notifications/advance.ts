import { groupedBy } from '../../platform/grouped-by.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
import { shortened } from '../../protocol/index.ts';
import { cancelUnbegun, Work, type WorkEngine } from '../work/index.ts';
import { NOTIFICATION } from './delivery.work.ts';
import {
  dueSteps,
  type Escalation,
  escalates,
  joinedTellingAt,
  nextLookAt,
  repeatsBy,
  type Standing,
  stateOf,
} from './escalation.ts';
import { NotificationChannel, NotificationPolicy, type StoredStep } from './notification.model.ts';
import { peopleAmong } from './notification.queries.ts';
import type { NotificationReason } from './notification.schema.ts';
import { type MessageContent, titleOf } from './payloads/message.ts';
import { whyNotTold } from './policy.service.ts';
import {
  addNotifications,
  type Group,
  type GroupChange,
  markTold,
  type NewNotification,
  pendingTellings,
  readTold,
  standings,
  storeGroups,
  type Subject,
  suppress,
  type Told,
  toldRecipients,
} from './round.queries.ts';

/** Moves locked conversations on: who is told now, what has ended, and when each is looked at next. */

type Enqueuer = Pick<WorkEngine, 'enqueueMany'>;

interface Recipient {
  channelId: string | null;
  userId: string | null;
  step: number | null;
}

/** Something that is told to some, before it is known how they are reached. */
interface Telling {
  group: Group;
  reason: NotificationReason;
  subject: Subject;
  recipients: Recipient[];
}

const NONE: Standing = { active: 0, acknowledged: 0, untold: 0 };
const RESOLVED_BEFORE = 'The alerts were resolved before this was sent.';

export async function advanceGroups(
  tx: Tx,
  work: Enqueuer,
  groups: readonly Group[],
  now: Date,
): Promise<void> {
  if (groups.length === 0) return;
  const ids = groups.map(({ id }) => id);
  const policies = new Map(
    (await NotificationPolicy.query(tx).findByIds([...new Set(groups.map(({ policyId }) => policyId))]))
      .filter(({ enabled }) => enabled)
      .map((policy) => [policy.id, policy]),
  );
  const standing = await standings(tx, ids);
  const tellings: Telling[] = [];
  const changes: GroupChange[] = [];
  const told: string[] = [];
  const closed: Group[] = [];
  const acknowledged: Group[] = [];
  for (const group of groups) {
    const moved = move(group, policies.get(group.policyId), standing.get(group.id) ?? NONE, now);
    changes.push(moved.change);
    tellings.push(...moved.tellings);
    if (moved.isTold) told.push(group.id);
    if (moved.change.state === 'closed') closed.push(group);
    if (moved.change.state === 'acknowledged' && group.state === 'open') acknowledged.push(group);
  }
  tellings.push(...(await endings(tx, closed)), ...(await acknowledgements(tx, acknowledged)));
  await tell(tx, work, tellings, now);
  if (told.length > 0) await markTold(tx, told);
  await storeGroups(tx, changes);
}

interface Moved {
  change: GroupChange;
  tellings: Telling[];
  /** All alerts of the conversation count as told. */
  isTold: boolean;
}

/** @param policy  absent if it was deleted or disabled */
function move(group: Group, policy: NotificationPolicy | undefined, standing: Standing, now: Date): Moved {
  const { id } = group;
  const state = stateOf(standing);
  let { beganAt, stepsTaken, repeats, lastToldAt } = group;
  const tellings: Telling[] = [];
  let isTold = false;
  if (policy !== undefined && escalates(state, policy.until)) {
    if (group.state === 'acknowledged' && state === 'open') {
      // Somebody takes care of what was there before. What is new begins with the first step.
      beganAt = joinedTellingAt(policy, group, now);
      stepsTaken = 0;
      repeats = 0;
    }
    const progress = { beganAt, stepsTaken, repeats, lastToldAt };
    const due = dueSteps(policy, progress, now);
    const reached = policy.steps.slice(0, due.from);
    const isFirst = due.from === 0 && due.to > 0;
    const hasJoined = due.from > 0 && standing.untold > 0 && joinedTellingAt(policy, progress, now) <= now;
    if (due.to > due.from) {
      const recipients = recipientsOf(policy.steps.slice(due.from, due.to), due.from);
      const reason = isFirst ? 'raised' : 'escalated';
      tellings.push({ group, reason, subject: 'open', recipients });
      stepsTaken = due.to;
    }
    const repeated = repeatsBy(policy, { ...progress, stepsTaken }, now);
    // After an outage, a step and a repetition may be due together: nobody is told twice at one time.
    const isRepeated = repeated > repeats && due.to === due.from;
    repeats = repeated;
    if (isRepeated) {
      const recipients = recipientsOf(policy.steps, 0);
      tellings.push({ group, reason: 'repeated', subject: 'open', recipients });
    } else if (hasJoined) {
      // Those of the steps that are due now hear of all.
      const others = recipientsOf(reached, 0).filter((one) => !isAmong(one, tellings));
      tellings.push({ group, reason: 'raised', subject: 'untold', recipients: others });
    }
    isTold = isFirst || isRepeated || hasJoined;
    if (isTold) lastToldAt = now;
  }
  const progress = { beganAt, stepsTaken, repeats, lastToldAt };
  const left = isTold ? { ...standing, untold: 0 } : standing;
  return {
    tellings,
    isTold,
    change: { id, state, ...progress, dueAt: nextLookAt(escalation(policy), left, progress, now) },
  };
}

const isAmong = ({ channelId, userId }: Recipient, tellings: readonly Telling[]): boolean =>
  tellings.some(({ recipients }) =>
    recipients.some((one) => one.channelId === channelId && one.userId === userId),
  );

const escalation = (policy: NotificationPolicy | undefined): Escalation | undefined => policy;

/** Each once, with the first step that has them. @param first  the number of the first of the steps, from 0 */
function recipientsOf(steps: readonly StoredStep[], first: number): Recipient[] {
  const recipients = new Map<string, Recipient>();
  for (const [place, { channelIds, userIds }] of steps.entries()) {
    const step = first + place + 1;
    for (const channelId of channelIds) {
      if (!recipients.has(channelId)) recipients.set(channelId, { channelId, userId: null, step });
    }
    for (const userId of userIds) {
      if (!recipients.has(userId)) recipients.set(userId, { channelId: null, userId, step });
    }
  }
  return [...recipients.values()];
}

/** Those who were told of alerts are told that they are resolved. Messages that are still to be sent are not needed any more. */
async function endings(tx: Tx, groups: readonly Group[]): Promise<Telling[]> {
  if (groups.length === 0) return [];
  const ids = groups.map(({ id }) => id);
  const pending = await pendingTellings(tx, ids);
  if (pending.length > 0) {
    await cancelUnbegun(tx, pending);
    const cancelled = await Work.query(tx).findByIds(pending).where('status', 'cancelled').select('id');
    await suppress(
      tx,
      cancelled.map(({ id }) => id),
      RESOLVED_BEFORE,
    );
  }
  const told = groupedBy(await toldRecipients(tx, ids), ({ groupId }) => groupId);
  return groups.flatMap((group) => {
    const recipients = told.get(group.id) ?? [];
    return recipients.length === 0 ? [] : [{ group, reason: 'resolved', subject: 'all', recipients }];
  });
}

/** Only services that page know what it is that somebody has acknowledged. */
async function acknowledgements(tx: Tx, groups: readonly Group[]): Promise<Telling[]> {
  if (groups.length === 0) return [];
  const told = await toldRecipients(
    tx,
    groups.map(({ id }) => id),
  );
  const channelIds = [...new Set(told.flatMap(({ channelId }) => channelId ?? []))];
  const paging = new Set(
    (await NotificationChannel.query(tx).findByIds(channelIds).where('type', 'pagerduty').select('id')).map(
      ({ id }) => id,
    ),
  );
  return groups.flatMap((group) => {
    const recipients = told.filter(
      ({ groupId, channelId }) => groupId === group.id && channelId !== null && paging.has(channelId),
    );
    return recipients.length === 0 ? [] : [{ group, reason: 'acknowledged', subject: 'all', recipients }];
  });
}

/** Adds the messages, and the work that sends them. */
async function tell(tx: Tx, work: Enqueuer, tellings: readonly Telling[], now: Date): Promise<void> {
  if (tellings.length === 0) return;
  const contents = await readContents(tx, tellings);
  const reach = await readReach(tx, tellings);
  const added: NewNotification[] = [];
  for (const telling of tellings) {
    const told = contents.get(telling);
    if (told === undefined) continue;
    for (const recipient of telling.recipients) {
      added.push(notificationFor(telling, told, recipient, reach, now));
    }
  }
  if (added.length === 0) return;
  await addNotifications(tx, added);
  await work.enqueueMany(
    tx,
    NOTIFICATION,
    added
      .filter(({ status }) => status === 'pending')
      .map(({ id, orgId, channelId, userId, severity }) => ({
        id,
        orgId,
        target: channelId ?? userId,
        isUrgent: severity === 'critical',
      })),
  );
}

async function readContents(tx: Tx, tellings: readonly Telling[]): Promise<Map<Telling, Told>> {
  const contents = new Map<Telling, Told>();
  for (const [subject, some] of groupedBy(tellings, (telling) => telling.subject)) {
    const told = await readTold(tx, subject, [...new Set(some.map(({ group }) => group.id))]);
    for (const telling of some) {
      const content = told.get(telling.group.id);
      if (content !== undefined) contents.set(telling, content);
    }
  }
  return contents;
}

/** How recipients are reached. */
interface Reach {
  channels: Map<string, NotificationChannel>;
  /** By organization and person: a person may reach one and not the other. */
  people: Map<string, Awaited<ReturnType<typeof peopleAmong>>[number]>;
}

async function readReach(tx: Tx, tellings: readonly Telling[]): Promise<Reach> {
  const recipients = tellings.flatMap((telling) => telling.recipients);
  const channelIds = [...new Set(recipients.flatMap(({ channelId }) => channelId ?? []))];
  const channels = await NotificationChannel.query(tx).findByIds(channelIds);
  const people: Reach['people'] = new Map();
  for (const [orgId, some] of groupedBy(tellings, ({ group }) => group.orgId)) {
    const [first] = some;
    const ids = new Set(some.flatMap((telling) => telling.recipients.flatMap(({ userId }) => userId ?? [])));
    if (first === undefined || ids.size === 0) continue;
    const owner = { partnerId: first.group.partnerId, orgId };
    for (const person of await peopleAmong(tx, owner, [...ids])) people.set(`${orgId} ${person.id}`, person);
  }
  return { channels: new Map(channels.map((channel) => [channel.id, channel])), people };
}

const RECIPIENT_MAX = 255;
const TITLE_MAX = 300;

function notificationFor(
  { group, reason }: Telling,
  told: Told,
  { channelId, userId, step }: Recipient,
  { channels, people }: Reach,
  now: Date,
): NewNotification {
  const { id: groupId, partnerId, orgId, policyId } = group;
  const channel = channelId === null ? undefined : channels.get(channelId);
  const person = userId === null ? undefined : people.get(`${orgId} ${userId}`);
  const why =
    whyNot(channelId, channel, group) ??
    (channelId === null ? whyNotTold(person, told.severity, now) : undefined);
  const title = shortened(titleOf(told.count, told.alerts[0]?.title ?? group.title, told.place), TITLE_MAX);
  const content: MessageContent = {
    reason,
    groupId,
    title,
    threadTitle: group.title,
    severity: told.severity,
    count: told.count,
    alerts: told.alerts,
    orgId,
    organization: told.organization,
    policy: told.policy,
    text: reason === 'resolved' ? endOf(told.count) : null,
  };
  return {
    id: newId(),
    partnerId,
    orgId,
    groupId,
    policyId,
    step,
    reason,
    status: why === undefined ? 'pending' : 'suppressed',
    channelId,
    userId,
    recipient: shortened(channel?.name ?? person?.name ?? 'unknown', RECIPIENT_MAX),
    title,
    severity: told.severity,
    alertCount: told.count,
    alertId: told.alerts[0]?.id ?? null,
    content,
    error: why ?? null,
  };
}

/** The alerts of a device that was deleted or has moved are gone, and whoever was told of them is told that. */
function endOf(count: number): string | null {
  if (count === 0) return 'The device does not belong to the organization any more.';
  return count === 1 ? null : 'All of these alerts are resolved.';
}

/** A channel of another tenant is never told, whatever a policy names. */
function whyNot(
  channelId: string | null,
  channel: NotificationChannel | undefined,
  { partnerId, orgId }: Group,
): string | undefined {
  if (channelId === null) return undefined;
  if (channel === undefined) return 'The channel was deleted.';
  const isOwn = channel.partnerId === partnerId && (channel.orgId === null || channel.orgId === orgId);
  return isOwn ? undefined : 'The channel belongs to another organization.';
}
