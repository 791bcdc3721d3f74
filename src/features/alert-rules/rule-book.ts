import { clock, MINUTE_MS } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { RepeatedCheck } from '../../platform/jobs/repeated-check.ts';
import type { Logger } from '../../platform/logger.ts';
import { RuleCondition } from './alert-rule.schema.ts';
import { readMetricRules, readRevision } from './rule-book.queries.ts';
import { type MetricRule, RuleSet } from './rule-set.ts';

/** How late this server learns of a changed rule. */
const EVERY_MS = 2000;
/** Organizations that are new, suspended or active again are noticed this late. */
const AGAIN_MS = MINUTE_MS;

const NONE = new RuleSet([]);

/** The enabled rules about metrics, in memory, so that figures are compared without asking the database. */
export class RuleBook {
  readonly #db: Db;
  readonly #log: Logger;
  readonly #checks: RepeatedCheck;
  #revision: string | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #byOrganization: ReadonlyMap<string, RuleSet> = new Map();

  constructor({ db, log }: { db: Db; log: Logger }) {
    this.#db = db;
    this.#log = log;
    this.#checks = new RepeatedCheck({
      everyMs: EVERY_MS,
      check: () => this.#refresh(),
      onFailing: (error) => log.warn({ err: error }, 'alerts.rules_not_read'),
    });
  }

  /** Reads the rules now and again. Until they are read, figures are compared with none. */
  start(): void {
    void this.#checks.settle();
  }

  settle(): Promise<void> {
    return this.#checks.settle();
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  /** The rules that cover devices of an organization, its own and those of its partner. */
  metricRulesOf(orgId: string): RuleSet {
    return this.#byOrganization.get(orgId) ?? NONE;
  }

  async #refresh(): Promise<void> {
    const revision = await readRevision(this.#db);
    const isOld = clock.monotonic() - this.#readAt > AGAIN_MS;
    if (revision === this.#revision && !isOld) return;
    const rules = new Map<string, MetricRule>();
    const byOrganization = new Map<string, MetricRule[]>();
    for (const { orgId, ...row } of await readMetricRules(this.#db)) {
      const rule = rules.get(row.id) ?? this.#parsed(row);
      if (rule === undefined) continue;
      rules.set(row.id, rule);
      const known = byOrganization.get(orgId);
      if (known === undefined) byOrganization.set(orgId, [rule]);
      else known.push(rule);
    }
    this.#byOrganization = new Map([...byOrganization].map(([orgId, all]) => [orgId, new RuleSet(all)]));
    this.#revision = revision;
    this.#readAt = clock.monotonic();
  }

  /** A rule that this release cannot read is passed over. */
  #parsed({ id, condition }: { id: string; condition: unknown }): MetricRule | undefined {
    const parsed = RuleCondition.safeParse(condition).data;
    if (parsed?.kind === 'metric') return { id, condition: parsed };
    this.#log.warn({ ruleId: id }, 'alerts.rule_not_readable');
    return undefined;
  }
}
