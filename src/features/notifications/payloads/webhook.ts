import { signedHeaders } from '../../webhooks/index.ts';
import { headline, type Links, linkOf, type Message, type OutgoingRequest, unnamed } from './message.ts';

/** A signed JSON event for systems of integrators, in the form of docs/webhooks.md. */

export function webhookRequest(
  { url, secret }: { url: string; secret: string },
  { id, at, content }: Message,
  links: Links,
): OutgoingRequest {
  const { reason, groupId, severity, count, alerts, orgId, organization, policy, text } = content;
  const body = JSON.stringify({
    id,
    type: `notification.${reason}`,
    createdAt: at.toISOString(),
    orgId,
    data: {
      title: headline(content),
      reason,
      groupId,
      severity,
      count,
      unnamed: unnamed(content),
      alerts,
      organization,
      policy,
      text,
      url: linkOf(content, links),
    },
  });
  return { url, headers: signedHeaders([secret], { id, at, body }), body };
}
