import type { NotificationChannel } from '../../api/routes.ts';

/** What each type of channel asks for, in the words of people. A unit test compares it with the schema of the API. */

export type ChannelType = NotificationChannel['type'];
type Detail = 'address' | 'url' | 'server' | 'topic';

interface Asked<Name> {
  name: Name;
  label: string;
  required: boolean;
  placeholder?: string;
}

interface ChannelTypeText {
  label: string;
  /** Where a person gets what the fields ask for. */
  help: string;
  details: readonly { [Name in Detail]: Asked<Name> }[Detail][];
  secret?: { label: string; required: boolean };
}

export const CHANNEL_TYPES: Readonly<Record<ChannelType, ChannelTypeText>> = {
  email: {
    label: 'Mail',
    help: 'An address that one or several people read. Mails come from the mail server of this installation.',
    details: [{ name: 'address', label: 'Address', required: true, placeholder: 'alerts@example.com' }],
  },
  slack: {
    label: 'Slack',
    help: 'In Slack: Apps › Incoming Webhooks › Add to Slack. Choose the channel there, and copy the webhook URL.',
    details: [],
    secret: { label: 'Webhook URL', required: true },
  },
  teams: {
    label: 'Microsoft Teams',
    help: 'In Teams: the menu of the channel › Workflows › “Send webhook alerts to a channel”. Copy the URL that it shows at the end.',
    details: [],
    secret: { label: 'URL of the workflow', required: true },
  },
  discord: {
    label: 'Discord',
    help: 'In Discord: Server Settings › Integrations › Webhooks › New Webhook. Choose the channel there, and copy the webhook URL.',
    details: [],
    secret: { label: 'Webhook URL', required: true },
  },
  pagerduty: {
    label: 'PagerDuty',
    help: 'In PagerDuty: Services › your service › Integrations › Add an integration › Events API V2. Copy the integration key.',
    details: [
      {
        name: 'url',
        label: 'Events API, if your account is not in the United States',
        required: false,
        placeholder: 'https://events.eu.pagerduty.com/v2/enqueue',
      },
    ],
    secret: { label: 'Integration key', required: true },
  },
  ntfy: {
    label: 'ntfy',
    help: 'In the app of ntfy: subscribe to a topic whose name nobody guesses, and put the same name in here. A server of your own can ask for an access token.',
    details: [
      { name: 'server', label: 'Server', required: true, placeholder: 'https://ntfy.sh' },
      { name: 'topic', label: 'Topic', required: true },
    ],
    secret: { label: 'Access token', required: false },
  },
  webhook: {
    label: 'Webhook',
    help: 'A program of yours gets each message as a POST request, signed as the Standard Webhooks specification says.',
    details: [{ name: 'url', label: 'URL', required: true, placeholder: 'https://hooks.example.com/muster' }],
    secret: { label: 'Signing secret', required: true },
  },
};

export const CHANNEL_TYPE_CHOICES = (
  ['email', 'slack', 'teams', 'discord', 'pagerduty', 'ntfy', 'webhook'] as const
).map((type) => ({ value: type, label: CHANNEL_TYPES[type].label }));

/** What the list shows of the address; that of chats is secret. */
export function channelAddress({
  type,
  details: { address, url, server, topic },
}: NotificationChannel): string {
  if (server !== undefined && topic !== undefined) return `${hostOf(server)}/${topic}`;
  return address ?? urlText(type, url);
}

const PAGERDUTY = 'events.pagerduty.com';

function urlText(type: ChannelType, url: string | undefined): string {
  if (url === undefined) return type === 'pagerduty' ? PAGERDUTY : 'Address kept secret';
  return type === 'webhook' ? url : hostOf(url);
}

const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url);

const SECRET_BYTES = 32;

/** A secret with which requests are signed, as the API takes it. */
export function newSigningSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}
