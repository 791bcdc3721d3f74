import type { Context } from '../../platform/context.ts';
import { containing, inTenant, nameOrder } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { endCausesSql } from '../alerts/index.ts';
import { type Owner, whereOwnerAccessible } from '../owners/index.ts';
import { AlertRule } from './alert-rule.model.ts';
import type { AlertRuleQuery } from './alert-rule.schema.ts';

type Reader = Pick<Context, 'tx' | 'caller'>;

/** The rules that the caller may see. */
export const accessibleRules = (ctx: Reader) =>
  whereOwnerAccessible(AlertRule.query(ctx.tx), ctx, 'alert_rules');

export const accessibleRulesWith = (ctx: Reader, { orgId, kind, search }: AlertRuleQuery) => {
  const rules = accessibleRules(ctx).orderByRaw(`${nameOrder('name')}, id`);
  if (orgId !== undefined) {
    void rules.whereRaw(
      `(alert_rules.org_id = :orgId or alert_rules.org_id is null
        and alert_rules.partner_id = (select o.partner_id from organizations o where o.id = :orgId))`,
      { orgId },
    );
  }
  if (kind !== undefined) void rules.where('condition_kind', kind);
  if (search !== undefined) void rules.whereILike('name', containing(search));
  return rules;
};

export const countRules = (tx: Tx, { partnerId, orgId }: Owner): Promise<number> =>
  AlertRule.query(tx).where({ partner_id: partnerId, org_id: orgId }).resultSize();

/** The numbers of open alerts of rules, as far as the caller sees them. */
export async function openAlertsOf(
  { tx, caller }: Reader,
  ruleIds: readonly string[],
): Promise<Map<string, number>> {
  const { rows } = await tx.raw<{ rows: { id: string; count: number }[] }>(
    `select rule_id as id, count(*)::int as count from alerts
    where rule_id = any(?::uuid[]) and status <> 'resolved' and ${inTenant(caller, 'org_id')} group by 1`,
    [[...ruleIds]],
  );
  return new Map(rows.map(({ id, count }) => [id, count]));
}

/** Forgets on which devices the condition of a rule is met. Rounds resolve the alerts that no rule stands behind any more. */
export async function forgetMatches({ tx }: Pick<Context, 'tx'>, ruleId: string): Promise<void> {
  await tx.raw('delete from alert_rule_matches where rule_id = ?', [ruleId]);
}

/** Ends the causes of all alerts of a rule. Those of what the server reports last whatever happens to their rule. */
export async function endCausesOfRule(
  { tx }: Pick<Context, 'tx'>,
  { id, conditionKind }: Pick<AlertRule, 'id' | 'conditionKind'>,
  why: string,
): Promise<void> {
  if (conditionKind === 'reported') return;
  await tx.raw(
    endCausesSql(
      'left(?, 300)',
      `where a.rule_id = ? and (a.cause_lasts or a.status <> 'resolved' and a.auto_resolve)`,
    ),
    [why, id],
  );
}
