import type { AlertSeverity } from '../../alerts/index.ts';
import type { NotificationReason } from '../notification.schema.ts';
import {
  cut,
  headline,
  type Links,
  linkOf,
  type Message,
  type OutgoingRequest,
  oneLine,
  unnamed,
} from './message.ts';

/** The Events API v2 of PagerDuty: https://developer.pagerduty.com/docs/events-api-v2-overview. */

export const PAGERDUTY_URL = 'https://events.pagerduty.com/v2/enqueue';
const SUMMARY_MAX = 1024;
const DETAIL_MAX = 1000;

const SEVERITIES: Record<AlertSeverity, 'critical' | 'error' | 'warning' | 'info'> = {
  critical: 'critical',
  high: 'error',
  medium: 'warning',
  low: 'info',
  info: 'info',
};

const ACTIONS: Record<NotificationReason, 'trigger' | 'acknowledge' | 'resolve'> = {
  raised: 'trigger',
  escalated: 'trigger',
  repeated: 'trigger',
  test: 'trigger',
  acknowledged: 'acknowledge',
  resolved: 'resolve',
};

/** One conversation is one incident, however often it is told. At most 255 characters. */
export const dedupKey = (groupId: string): string => `muster-${groupId}`;

export function pagerDutyRequest(
  url: string,
  routingKey: string,
  { content }: Message,
  links: Links,
): OutgoingRequest {
  const action = ACTIONS[content.reason];
  const event = {
    routing_key: routingKey,
    event_action: action,
    dedup_key: dedupKey(content.groupId),
    ...(action === 'trigger' ? triggered(content, links) : {}),
  };
  return {
    url,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    body: JSON.stringify(event),
  };
}

function triggered(content: Message['content'], links: Links) {
  const [first] = content.alerts;
  return {
    client: 'Muster',
    client_url: linkOf(content, links),
    payload: {
      summary: cut(headline(content), SUMMARY_MAX),
      source: cut(oneLine(content.organization ?? 'Muster'), DETAIL_MAX),
      severity: SEVERITIES[content.severity],
      ...(first === undefined ? {} : { timestamp: first.raisedAt, class: first.kind }),
      custom_details: {
        alerts: content.alerts.map(({ title, message, severity, raisedAt }) => ({
          title: cut(title, DETAIL_MAX),
          message: cut(message, DETAIL_MAX),
          severity,
          raisedAt,
        })),
        count: content.count,
        unnamed: unnamed(content),
        policy: content.policy,
        ...(content.text === null ? {} : { text: cut(content.text, DETAIL_MAX) }),
      },
    },
  };
}
