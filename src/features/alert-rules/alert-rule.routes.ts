import { z } from 'zod';
import { auditSubject } from '../../platform/http/audit.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  AlertRule,
  AlertRulePatch,
  AlertRuleQuery,
  NewAlertRule,
  RulePreview,
  RulePreviewRequest,
} from './alert-rule.schema.ts';
import { createRule, deleteRule, listRules, readRule, RULES_MAX, updateRule } from './alert-rule.service.ts';
import { previewRule } from './preview.service.ts';

const READ = everyScope('alerts:read');
const WRITE = everyScope('organizations:write');

export const alertRuleRoutes: RouteGroup = {
  name: 'Alert rules',
  description:
    'On which conditions alerts are raised, about which devices, and how severe they are. Rules that raise alerts of the same kind share one alert about a device, which has the severity of the worst rule whose condition is met. An addition to the specification.',
  routes: [
    route({
      method: 'get',
      path: '/alert-rules',
      summary: 'List alert rules by name',
      description:
        'Those of partners are shown to users with access to all of the organizations of the partner.',
      access: READ,
      query: AlertRuleQuery,
      response: pageOf(AlertRule),
      handler: ({ ctx, query }) => listRules(ctx, query),
    }),
    route({
      method: 'post',
      path: '/alert-rules',
      summary: 'Create an alert rule',
      description: `It takes effect within a minute. Alerts that the server reports by itself are raised without a rule; once there is a rule for their kind, only for devices that an enabled rule covers. An organization can have ${RULES_MAX} rules, and a partner ${RULES_MAX} of its own.`,
      access: WRITE,
      body: NewAlertRule,
      response: AlertRule,
      status: 201,
      errors: ['conflict', 'limit_reached', 'tenant_inactive'],
      handler: ({ ctx, body }) => createRule(ctx, body),
      audit: {
        action: 'alert_rule.create',
        resource: 'alert_rule',
        note: ({ target, condition, severity, ...rule }) => ({
          ...auditSubject(rule),
          details: { target, condition, severity },
        }),
      },
    }),
    route({
      method: 'post',
      path: '/alert-rules/preview',
      summary: 'Show which alerts a rule would have raised in the last seven days',
      description:
        'The rule is evaluated alone, on what the server has stored, for the devices that it covers now as if it always had, and by the times at which things happened. Really, an alert is raised by the first round after the server was told; a cause that ends and returns before a round sees the end is one alert, and no cooldown begins; one that returns within an hour after its alert was resolved is counted in that alert. Not considered are maintenance windows, other rules, outages of the server, and times in which a device was out of service, in another organization, or outside of the groups and filters of the target. Devices whose agents send no samples have no figures to look at, and figures of a device whose clock was wrong are where that clock has put them; those that were refused, because it was more than five minutes ahead, are missing, and after a quarter of an hour its heartbeats were judged instead.',
      access: READ,
      cost: 'expensive',
      transaction: false,
      body: RulePreviewRequest,
      response: RulePreview,
      handler: ({ ctx, body }) => previewRule(ctx, body),
      unaudited: 'it changes nothing, and shows no more than the caller may read',
    }),
    route({
      method: 'get',
      path: '/alert-rules/:id',
      summary: 'Read an alert rule',
      access: READ,
      params: IdParams,
      response: AlertRule,
      handler: ({ ctx, params }) => readRule(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/alert-rules/:id',
      summary: 'Change, enable or disable an alert rule',
      description:
        'It takes effect within minutes. Alerts whose condition the rule no longer watches for are resolved.',
      access: WRITE,
      params: IdParams,
      body: AlertRulePatch,
      response: AlertRule,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params, body }) => updateRule(ctx, params.id, body),
      audit: { action: 'alert_rule.update', resource: 'alert_rule', note: auditSubject },
    }),
    route({
      method: 'delete',
      path: '/alert-rules/:id',
      summary: 'Delete an alert rule',
      description:
        'Its open alerts are resolved. Those of what Muster reports by itself stay open: what was reported has not ended.',
      access: WRITE,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['tenant_inactive'],
      handler: ({ ctx, params }) => deleteRule(ctx, params.id),
      audit: { action: 'alert_rule.delete', resource: 'alert_rule', note: ({ rule }) => auditSubject(rule) },
    }),
  ],
};
