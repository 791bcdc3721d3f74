import { isDeepStrictEqual } from 'node:util';
import type { Context } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertTarget } from '../device-targets/index.ts';
import type { FilterReferrer } from '../filters/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { lockOwner, ownerOf } from '../owners/index.ts';
import { AlertRule } from './alert-rule.model.ts';
import {
  accessibleRules,
  accessibleRulesWith,
  countRules,
  endCausesOfRule,
  forgetMatches,
  openAlertsOf,
} from './alert-rule.queries.ts';
import type {
  AlertRule as RuleResponse,
  AlertRulePatch,
  AlertRuleQuery,
  NewAlertRule,
} from './alert-rule.schema.ts';
import { alertKindOf } from './alert-text.ts';

/** The number of rules of one organization, and of those of one partner itself. */
export const RULES_MAX = 200;
const NAME_TAKEN = 'Another alert rule of the same owner has this name.';

/** Refuses the deletion of a filter that decides which devices a rule covers. */
export const alertRulesUseFilters: FilterReferrer = {
  kind: 'alert rule',
  sql: `select r.id, r.name, f.org_id from alert_rules r
    join saved_filters f on f.id::text = r.target ->> 'filterId' where f.id = ?::uuid`,
};

export async function listRules(ctx: Context, query: AlertRuleQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessibleRulesWith(ctx, query).page(query.page - 1, query.limit);
  return toPage(query, { results: await toResponses(ctx, results), total });
}

export async function readRule(ctx: Context, id: string): Promise<RuleResponse> {
  return toResponse(ctx, await findRule(ctx, id));
}

async function findRule(ctx: Context, id: string): Promise<AlertRule> {
  const rule = await accessibleRules(ctx).findById(id);
  if (rule === undefined) throw notFound('Alert rule');
  return rule;
}

async function lockRule(ctx: Context, id: string): Promise<AlertRule> {
  const rule = await accessibleRules(ctx).findById(id).forUpdate();
  if (rule === undefined) throw notFound('Alert rule');
  if (rule.orgId !== null) await assertManageable(ctx, rule.orgId);
  return rule;
}

export async function createRule(ctx: Context, { orgId, ...input }: NewAlertRule): Promise<RuleResponse> {
  const owner = await ownerOf(ctx, orgId, 'change alert rules of the partner');
  await assertTarget(ctx, owner, input.target, 'body.target');
  await lockOwner(ctx.tx, owner);
  if ((await countRules(ctx.tx, owner)) >= RULES_MAX) {
    throw new AppError('limit_reached', `Alert rule limit reached (${RULES_MAX}).`);
  }
  const id = newId();
  const rule = await named(
    AlertRule.query(ctx.tx).insertAndFetch({
      ...owner,
      id,
      name: input.name,
      enabled: input.enabled ?? true,
      severity: input.severity,
      target: input.target,
      condition: input.condition,
      conditionKind: input.condition.kind,
      alertKind: alertKindOf(id, input.condition),
      autoResolve: input.autoResolve ?? true,
      cooldownMinutes: input.cooldownMinutes ?? 0,
      createdBy: ctx.caller.userId,
    }),
  );
  return toResponse(ctx, rule);
}

export async function updateRule(ctx: Context, id: string, patch: AlertRulePatch): Promise<RuleResponse> {
  const rule = await lockRule(ctx, id);
  const changes = omitUndefined(patch);
  if (Object.keys(changes).length === 0) throw noFields();
  if (changes.target !== undefined) await assertTarget(ctx, rule, changes.target, 'body.target');
  const before = recorded(rule);
  const { alertKind, conditionKind } = rule;
  const { condition = rule.condition } = changes;
  const updated = await named(
    rule.$query(ctx.tx).patchAndFetch({
      ...changes,
      conditionKind: condition.kind,
      alertKind: alertKindOf(id, condition),
    }),
  );
  // A changed threshold is followed by the next figures. What else was found belongs to the former condition.
  if (!updated.enabled || !isSameCause(before.condition, condition)) await forgetMatches(ctx, id);
  if (updated.alertKind !== alertKind) {
    await endCausesOfRule(ctx, { id, conditionKind }, 'The rule was changed.');
  }
  ctx.recordChange(before, recorded(updated));
  return toResponse(ctx, updated);
}

function isSameCause(before: AlertRule['condition'], after: AlertRule['condition']): boolean {
  if (before.kind !== 'metric' || after.kind !== 'metric') return isDeepStrictEqual(before, after);
  return before.metric === after.metric && before.operator === after.operator;
}

const recorded = ({
  name,
  enabled,
  severity,
  target,
  condition,
  autoResolve,
  cooldownMinutes,
}: AlertRule) => ({ name, enabled, severity, target, condition, autoResolve, cooldownMinutes });

export async function deleteRule(ctx: Context, id: string) {
  const rule = await lockRule(ctx, id);
  await endCausesOfRule(ctx, rule, 'The rule was deleted.');
  await rule.$query(ctx.tx).delete();
  return { success: true as const, rule };
}

async function toResponse(ctx: Context, rule: AlertRule): Promise<RuleResponse> {
  const [response] = await toResponses(ctx, [rule]);
  if (response === undefined) throw new Error('A rule has no answer.');
  return response;
}

async function toResponses(ctx: Context, rules: readonly AlertRule[]): Promise<RuleResponse[]> {
  const open = await openAlertsOf(
    ctx,
    rules.map(({ id }) => id),
  );
  return rules.map((rule) => {
    const { id, orgId, partnerId, alertKind, createdBy, createdAt, updatedAt } = rule;
    return {
      id,
      orgId,
      partnerId,
      ...recorded(rule),
      alertKind,
      openAlerts: open.get(id) ?? 0,
      createdBy,
      createdAt,
      updatedAt,
    };
  });
}

const named = <T>(query: PromiseLike<T>) =>
  namingConflict(query, 'alert_rules_name', 'body.name', NAME_TAKEN);
