import { type AlertSeverity, kindFamily } from '../alerts/index.ts';
import type { GroupBy, PolicyMatch } from './policy.schema.ts';
import { isWithinHours } from './weekly-hours.ts';

/** Which policy takes an alert, and which alerts are one conversation. Pure. */

export interface MatchedAlert {
  orgId: string;
  severity: AlertSeverity;
  kind: string;
  /** Null if it concerns a whole organization. */
  siteId: string | null;
}

/** Why an alert does not fit a policy; `undefined` if it does. */
export function matchFault(
  { severities, kinds, orgIds, siteIds, hours }: PolicyMatch,
  { orgId, severity, kind, siteId }: MatchedAlert,
  at: Date,
): string | undefined {
  if (severities !== undefined && !severities.includes(severity)) return 'It is for other severities.';
  if (kinds !== undefined && !kinds.includes(kind) && !kinds.includes(kindFamily(kind))) {
    return 'It is for other kinds of alerts.';
  }
  if (orgIds !== undefined && !orgIds.includes(orgId)) return 'It is for other organizations.';
  if (siteIds !== undefined && (siteId === null || !siteIds.includes(siteId))) {
    return 'It is for other sites.';
  }
  if (hours !== undefined && !isWithinHours(hours, at)) return 'It is for other hours.';
  return undefined;
}

interface OrderedPolicy {
  id: string;
  match: PolicyMatch;
  enabled: boolean;
}

export interface Considered<P> {
  policy: P;
  /** Why it does not take the alert; null for the one that does, which is the last. */
  fault: string | null;
}

/**
 * The policies in their order, up to the one that takes the alert.
 * @param policies  those of the organization in their order, then those of its partner
 */
export function considered<P extends OrderedPolicy>(
  policies: readonly P[],
  alert: MatchedAlert,
  at: Date,
): Considered<P>[] {
  const seen: Considered<P>[] = [];
  for (const policy of policies) {
    const fault = policy.enabled ? matchFault(policy.match, alert, at) : 'It is disabled.';
    seen.push({ policy, fault: fault ?? null });
    if (fault === undefined) break;
  }
  return seen;
}

/** The policy that takes the alert. */
export function policyFor<P extends OrderedPolicy>(
  policies: readonly P[],
  alert: MatchedAlert,
  at: Date,
): P | undefined {
  return policies.find(({ enabled, match }) => enabled && matchFault(match, alert, at) === undefined);
}

/** Alerts of one policy and organization with the same key are one conversation. */
export function groupKey(
  groupBy: GroupBy,
  alert: { id: string; subjectId: string; siteId: string | null; kind: string },
): string {
  switch (groupBy) {
    case 'none':
      return `alert ${alert.id}`;
    case 'device':
      return `device ${alert.subjectId}`;
    case 'site':
      return `site ${alert.siteId ?? 'none'}`;
    case 'rule':
      return `kind ${alert.kind}`;
    default:
      return groupBy satisfies never;
  }
}
