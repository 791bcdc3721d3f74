import { clock } from '../../clock.ts';
import type { AgentContext } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { raiseAlert } from '../alerts/index.ts';
import { removesOldest } from '../log-retention/index.ts';
import {
  type Amounts,
  type Budgets,
  BUDGETS,
  MAKE_ROOM_EVERY_MINUTES,
  plus,
  spentPeriod,
  untilNextDay,
  type Usage,
} from './budget.ts';
import { addUsage, usageOfDevice, usageOfOrganization } from './log.queries.ts';

/** The sums of an organization are read from many rows, so what other servers add counts this much later. */
const FRESH_MS = 60_000;
const KNOWN_MAX = 10_000;

const ALERT_KIND = 'log_budget_spent';
const PERIOD = { day: 'today', total: 'in total' } as const;

/** A budget that is spent, and what makes logs welcome again: the next day, or the removal of the oldest ones. */
interface Spent {
  whose: keyof Budgets;
  period: keyof Usage;
  endsWith: 'day' | 'room';
}

/**
 * The budgets for logs that are stored: of each device, and of all devices of an organization together. A batch is taken
 * while they are not spent, so a budget is exceeded by one batch at most.
 */
export class LogBudgets {
  readonly #budgets: Budgets;
  readonly #organizations = new Map<string, { usage: Usage; readAt: number }>();

  constructor(budgets = BUDGETS) {
    this.#budgets = budgets;
  }

  /**
   * Stores a batch and counts what was stored. The batch with which a budget is spent raises an alert.
   * @throws AppError `rate_limited` if a budget is spent, with the time until logs are taken again
   */
  async spend<T>(ctx: AgentContext, store: () => Promise<{ answer: T; stored: Amounts }>): Promise<T> {
    const used = { device: await usageOfDevice(ctx), organization: await this.#ofOrganization(ctx) };
    for (const whose of ['device', 'organization'] as const) {
      const period = spentPeriod(used[whose], this.#budgets[whose]);
      if (period === undefined) continue;
      throw refusal({ whose, period, endsWith: await this.#endOf(ctx, whose, period) });
    }
    const { answer, stored } = await store();
    if (stored.entries === 0) return answer;
    await addUsage(ctx, stored);
    for (const whose of ['device', 'organization'] as const) {
      const after = plus(used[whose], stored);
      const period = spentPeriod(after, this.#budgets[whose]);
      if (period === undefined) continue;
      const endsWith = await this.#endOf(ctx, whose, period);
      await raiseAlert(ctx.tx, alertOf(ctx, { whose, period, endsWith }));
    }
    ctx.afterCommit(() => this.#add(ctx.agent.orgId, stored));
    return answer;
  }

  /** Only the total of an organization can be made room in, and only if it chose so. */
  async #endOf(ctx: AgentContext, whose: keyof Budgets, period: keyof Usage): Promise<Spent['endsWith']> {
    return whose === 'organization' && period === 'total' && (await removesOldest(ctx)) ? 'room' : 'day';
  }

  async #ofOrganization(ctx: AgentContext): Promise<Usage> {
    const { orgId } = ctx.agent;
    const known = this.#organizations.get(orgId);
    const now = clock.monotonic();
    if (known !== undefined && now - known.readAt < FRESH_MS) return known.usage;
    const usage = await usageOfOrganization(ctx);
    if (this.#organizations.size >= KNOWN_MAX) this.#organizations.clear();
    this.#organizations.set(orgId, { usage, readAt: now });
    return usage;
  }

  #add(orgId: string, stored: Amounts): void {
    const known = this.#organizations.get(orgId);
    if (known !== undefined) known.usage = plus(known.usage, stored);
  }
}

function refusal({ whose, period, endsWith }: Spent): AppError {
  const spent = `This ${whose} has stored as much of logs ${PERIOD[period]} as it may.`;
  return endsWith === 'day'
    ? new AppError('rate_limited', `${spent} Send again when the next day (UTC) has begun.`, {
        retryAfterMs: untilNextDay(clock.now()),
      })
    : new AppError(
        'rate_limited',
        `${spent} Its oldest logs are being removed. Send again in ${MAKE_ROOM_EVERY_MINUTES} minutes.`,
        { retryAfterMs: MAKE_ROOM_EVERY_MINUTES * 60_000 },
      );
}

const END = {
  day: 'until the next day (UTC) begins',
  room: 'until the oldest ones are removed, which the organization chose',
} as const;

const alertOf = ({ agent }: AgentContext, { whose, period, endsWith }: Spent) => ({
  orgId: agent.orgId,
  ...(whose === 'device' ? { deviceId: agent.deviceId } : {}),
  kind: ALERT_KIND,
  severity: 'medium' as const,
  title: `The ${whose} has stored as much of logs as it may`,
  message: `Logs are refused ${END[endsWith]}, because their budget is spent ${PERIOD[period]}. Something on the ${whose === 'device' ? 'machine' : 'machines'} may be logging without end.`,
  details: { period },
});

/** About what an entry takes in the database. */
export const bytesOf = (texts: readonly string[], json: object | undefined): number =>
  texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0) +
  (json === undefined ? 0 : Buffer.byteLength(JSON.stringify(json)));
