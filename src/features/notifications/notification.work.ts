import { clock, SECOND_MS } from '../../clock.ts';
import type { BackgroundPart } from '../../platform/close-stack.ts';
import { eachByItself } from '../../platform/concurrency.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { devicesInMaintenance } from '../maintenance-windows/index.ts';
import type { WorkEngine } from '../work/index.ts';
import { advanceGroups } from './advance.ts';
import { firstWaitMs } from './escalation.ts';
import { policiesOfOrganization } from './notification.queries.ts';
import { groupKey, policyFor } from './policy-match.ts';
import {
  addGroups,
  type ChangedAlert,
  dueGroupIds,
  joinAlerts,
  leaveConversations,
  lockGroups,
  lockOutbox,
  type NewGroup,
  noteStatuses,
  postponeGroup,
  takeChanges,
  takeDueGroups,
  tenantNow,
  waitingOrganizations,
} from './round.queries.ts';

export interface NotificationTiming {
  /** How often a server looks for alerts that have changed, and for conversations that are due. */
  everyMs: number;
}

const TIMING: NotificationTiming = { everyMs: SECOND_MS };

interface Parts {
  db: Db;
  work: Pick<WorkEngine, 'enqueueMany'>;
  log: Logger;
}

/** Organizations that one round looks at, each in a transaction of its own. */
const ORGANIZATIONS_MAX = 200;
/** Conversations that one transaction advances. */
const GROUPS_MAX = 100;
/** An organization whose changes cannot be taken is left alone for this time. */
const LEFT_MS = 30 * SECOND_MS;

/**
 * Decides who is told about alerts. Every server has one; they share the work by locks: the changes of an organization
 * are taken by one server at a time, and a conversation is advanced by one. What is decided is stored together with the
 * work that sends it, so nothing is lost or told twice if a server dies.
 */
export class NotificationRounds implements BackgroundPart {
  readonly #parts: Parts;
  readonly #timing: NotificationTiming;
  /** Organizations whose changes could not be taken, until when they are left alone. */
  readonly #left = new Map<string, number>();
  #looping: Promise<void> = Promise.resolve();
  /** The next round begins when this one has ended. */
  #lastRound: Promise<unknown> = Promise.resolve();
  #wake = () => {};
  #isClosing = false;
  #isFailing = false;

  constructor(parts: Parts, timing: Partial<NotificationTiming> = {}) {
    this.#parts = parts;
    this.#timing = { ...TIMING, ...timing };
  }

  start(): void {
    this.#looping = this.#loop();
  }

  /** Decides now what is due, until nothing is. Rejects while the database is unavailable. */
  async settle(): Promise<void> {
    while (await this.#nextRound());
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#wake();
    await this.#looping;
    await this.#lastRound;
  }

  async #loop(): Promise<void> {
    while (!this.#isClosing) {
      try {
        const hasMore = await this.#nextRound();
        this.#isFailing = false;
        if (hasMore) continue;
      } catch (error) {
        // Logged once per outage of the database.
        if (!this.#isFailing) this.#parts.log.warn({ err: error }, 'notifications.round_failed');
        this.#isFailing = true;
      }
      await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    if (this.#isClosing) return;
    await new Promise<void>((resolve) => {
      const timer = clock.setTimeout(() => resolve(), this.#timing.everyMs).unref();
      this.#wake = () => {
        clock.clear(timer);
        resolve();
      };
    });
  }

  /** One round at a time. @returns whether something was done, so that more may follow */
  #nextRound(): Promise<boolean> {
    const looking = this.#lastRound.then(() => this.#round());
    this.#lastRound = looking.catch(() => undefined);
    return looking;
  }

  async #round(): Promise<boolean> {
    const hasTaken = await this.#takeAll();
    const hasAdvanced = await this.#advanceDue();
    return hasTaken || hasAdvanced;
  }

  async #takeAll(): Promise<boolean> {
    const { db, work, log } = this.#parts;
    for (const [orgId, until] of this.#left) {
      if (until <= clock.monotonic()) this.#left.delete(orgId);
    }
    const waiting = await withSystem(db, 'find organizations whose alerts have changed', (tx) =>
      waitingOrganizations(tx, { except: [...this.#left.keys()], limit: ORGANIZATIONS_MAX }),
    );
    let hasTaken = false;
    await eachByItself(
      waiting,
      async (orgId) => {
        if (this.#isClosing) return;
        const taken = await withSystem(db, 'decide who is told about the alerts of an organization', (tx) =>
          takeOrganization(tx, work, orgId),
        );
        hasTaken ||= taken;
      },
      (error, orgId) => {
        log.error({ err: error, orgId }, 'notifications.organization_failed');
        this.#left.set(orgId, clock.monotonic() + LEFT_MS);
      },
    );
    return hasTaken;
  }

  async #advanceDue(): Promise<boolean> {
    const { db } = this.#parts;
    try {
      const advanced = await withSystem(db, 'tell what is due about alerts', (tx) => this.#advance(tx));
      return advanced === GROUPS_MAX;
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      this.#parts.log.error({ err: error }, 'notifications.groups_failed');
    }
    await this.#advanceOneByOne();
    return false;
  }

  async #advance(tx: Tx, only?: string): Promise<number> {
    const { groups, now } = await takeDueGroups(tx, {
      limit: GROUPS_MAX,
      ...(only === undefined ? {} : { only }),
    });
    await advanceGroups(tx, this.#parts.work, groups, now);
    return groups.length;
  }

  /** One of them has failed, and holds up none of the others. */
  async #advanceOneByOne(): Promise<void> {
    const { db, log } = this.#parts;
    const ids = await withSystem(db, 'find conversations that are due', (tx) => dueGroupIds(tx, GROUPS_MAX));
    await eachByItself(
      ids,
      (id) => withSystem(db, 'tell what is due in a conversation', (tx) => this.#advance(tx, id)),
      async (error, id) => {
        log.error({ err: error, groupId: id }, 'notifications.group_failed');
        await withSystem(db, 'postpone a conversation', (tx) => postponeGroup(tx, id));
      },
    );
  }
}

/** Takes what has changed about the alerts of an organization. @returns whether there was something to take */
async function takeOrganization(tx: Tx, work: Parts['work'], orgId: string): Promise<boolean> {
  if (!(await lockOutbox(tx, orgId))) return false;
  const alerts = await takeChanges(tx, orgId);
  const tenant = await tenantNow(tx, orgId);
  if (tenant === undefined) return false;
  const { now, partnerId } = tenant;
  const raised = alerts.filter(
    ({ isRaised, isTold, status }) => isRaised && !isTold && status === 'active' && tenant.isManageable,
  );
  const quiet = await devicesInMaintenance(
    tx,
    raised.map(({ subjectId }) => subjectId),
    'alerts',
  );
  const wanted = await wantedGroups(tx, { partnerId, orgId }, { alerts: raised, quiet }, now);
  const groups = await openGroups(
    tx,
    { partnerId, orgId },
    wanted.map(({ group }) => group),
    alerts.map(({ id }) => id),
  );
  const byKey = new Map(groups.map(({ id, policyId, key }) => [`${policyId} ${key}`, id]));
  const joined = wanted.flatMap(({ group: { policyId, key }, alertIds }) => {
    const groupId = byKey.get(`${policyId} ${key}`);
    return groupId === undefined ? [] : alertIds.map((alertId) => ({ groupId, alertId }));
  });
  if (joined.length > 0) await joinAlerts(tx, orgId, joined);
  if (groups.length > 0) {
    const groupIds = groups.map(({ id }) => id);
    await noteStatuses(tx, groupIds, alerts);
    await leaveConversations(tx, orgId, { groupIds, alertIds: alerts.map(({ id }) => id) });
  }
  await advanceGroups(tx, work, groups, now);
  return alerts.length > 0;
}

interface WantedGroup {
  group: NewGroup;
  alertIds: string[];
}

/**
 * The conversations that new alerts belong to, by the policies that take them. Those about devices in maintenance have
 * conversations of their own, which begin when the maintenance ends: an alert that is over by then is told to nobody.
 */
async function wantedGroups(
  tx: Tx,
  owner: { partnerId: string; orgId: string },
  { alerts, quiet }: { alerts: readonly ChangedAlert[]; quiet: ReadonlyMap<string, { until: Date }> },
  now: Date,
): Promise<WantedGroup[]> {
  if (alerts.length === 0) return [];
  const policies = await policiesOfOrganization(tx, owner).where('enabled', true);
  const wanted = new Map<string, WantedGroup>();
  for (const alert of alerts) {
    const policy = policyFor(policies, { ...alert, orgId: owner.orgId }, now);
    if (policy === undefined) continue;
    const until = quiet.get(alert.subjectId)?.until;
    const usualKey = groupKey(policy.groupBy, alert);
    const key = until === undefined ? usualKey : `after ${until.toISOString()} ${usualKey}`;
    const known = wanted.get(`${policy.id} ${key}`);
    if (known === undefined) {
      const beganAt = new Date((until ?? now).getTime() + firstWaitMs(policy));
      const group = { policyId: policy.id, key, title: alert.title, beganAt };
      wanted.set(`${policy.id} ${key}`, { group, alertIds: [alert.id] });
    } else known.alertIds.push(alert.id);
  }
  return [...wanted.values()];
}

const TRIES = 5;

/** Locks the conversations, and begins those that do not exist. One may be closed in between, and is begun anew then. */
async function openGroups(
  tx: Tx,
  owner: { partnerId: string; orgId: string },
  wanted: readonly NewGroup[],
  alertIds: readonly string[],
) {
  for (let tries = 0; tries < TRIES; tries++) {
    if (wanted.length > 0) await addGroups(tx, owner, wanted);
    const groups = await lockGroups(tx, owner.orgId, { alertIds, keys: wanted });
    const keys = new Set(groups.map(({ policyId, key }) => `${policyId} ${key}`));
    if (wanted.every(({ policyId, key }) => keys.has(`${policyId} ${key}`))) return groups;
  }
  throw new Error('The conversations of an organization are closed again and again.');
}
