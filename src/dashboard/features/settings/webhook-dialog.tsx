import { Checkbox, Stack, Tooltip, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import {
  useApiChange,
  type Webhook,
  apiQuery,
  type WebhookEventType,
  type WebhookDelivery,
} from '../../api/index.ts';
import { useOrganizations, choicesOf } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useMe, refusalOf } from '../../session.ts';
import {
  FormDialog,
  formatWord,
  Loaded,
  useForm,
  StateBadge,
  type Tone,
  CopyText,
  Notice,
} from '../../ui/index.ts';
import { IconKey } from '@tabler/icons-react';

const ALL = 'all';

/** Creates a webhook, or changes one. */
export function WebhookDialog({
  webhook,
  onClose,
  onMade,
}: {
  webhook?: Webhook;
  onClose: () => void;
  onMade?: (secret: string) => void;
}) {
  const me = useMe();
  const { orgId } = useScope();
  const organizations = useOrganizations();
  const form = useForm({
    owner: orgId ?? me.orgId ?? ALL,
    name: webhook?.name ?? '',
    url: webhook?.url ?? '',
    eventTypes: webhook?.eventTypes ?? [],
    enabled: webhook?.enabled ?? true,
  });
  const { owner, name, url, eventTypes, enabled } = form.values;
  const create = useApiChange('POST /webhooks', { refreshes: WEBHOOK_READS });
  const change = useApiChange('PATCH /webhooks/{id}', { refreshes: WEBHOOK_READS });
  const isOfPartner = webhook === undefined ? owner === ALL : webhook.orgId === null;
  const submit = async () => {
    if (webhook !== undefined) {
      await change.mutateAsync({
        params: { id: webhook.id },
        // Also a person who may not read all of its events may rename it.
        body: {
          name,
          enabled,
          ...(url === webhook.url ? {} : { url }),
          ...(eventTypes.join() === webhook.eventTypes.join() ? {} : { eventTypes }),
        },
      });
      return;
    }
    const made = await create.mutateAsync({
      body: { name, url, eventTypes, ...(owner === ALL ? {} : { orgId: owner }) },
    });
    onMade?.(made.secret);
  };
  return (
    <FormDialog
      size="lg"
      title={webhook === undefined ? 'New webhook' : `Change “${webhook.name}”`}
      onClose={onClose}
      submit={submit}
      submitLabel={webhook === undefined ? 'Create webhook' : 'Save'}
      form={form}
      fields={[
        { name: 'name', label: 'Name', required: true },
        {
          name: 'url',
          label: 'URL',
          description: 'It must begin with https:// and have a public address.',
          placeholder: 'https://hooks.example.com/muster',
          required: true,
        },
        webhook === undefined &&
          me.scope !== 'organization' && {
            name: 'owner',
            fault: 'orgId',
            kind: 'choice',
            label: 'Organization',
            isSearchable: true,
            options: [
              ...(me.scope === 'partner' ? [{ value: ALL, label: 'All organizations' }] : []),
              ...choicesOf(organizations),
            ],
          },
        {
          name: 'eventTypes',
          control: (field) => <EventTypeChoice {...field} isOfPartner={isOfPartner} />,
        },
        webhook !== undefined && {
          name: 'enabled',
          kind: 'switch',
          label: 'Enabled',
          description: 'While it is disabled, events are not kept for it.',
        },
      ]}
    />
  );
}

type Name = WebhookEventType['name'];

/** Which events are sent. What a person may not read stays visible and says why. */
function EventTypeChoice({
  value,
  onChange,
  isOfPartner,
  error,
}: {
  value: readonly Name[];
  onChange: (names: Name[]) => void;
  isOfPartner: boolean;
  error?: string | undefined;
}) {
  const me = useMe();
  const types = useQuery({
    ...apiQuery('GET /webhooks/event-types'),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Loaded query={types} what="Reading the types of events">
      {({ data }) => (
        <Checkbox.Group
          label="Events"
          required
          value={[...value]}
          onChange={(picked) =>
            onChange(data.map(({ name }) => name).filter((name) => picked.includes(name)))
          }
          error={error}
        >
          <Stack gap={6} mt={4}>
            {data.map(({ name, description, permission, isOfPartner: needsPartner }) => {
              const refusal =
                needsPartner && !isOfPartner
                  ? 'Only webhooks for all organizations can have it.'
                  : refusalOf(me, permission);
              const box = (
                <Checkbox
                  key={name}
                  value={name}
                  label={`${formatWord(name)} (${name})`}
                  description={refusal === undefined ? description : `${description} ${refusal}`}
                  disabled={refusal !== undefined}
                />
              );
              return refusal === undefined ? (
                box
              ) : (
                <Tooltip key={name} label={refusal}>
                  <div>{box}</div>
                </Tooltip>
              );
            })}
          </Stack>
        </Checkbox.Group>
      )}
    </Loaded>
  );
}

/** The queries to fetch again after a change of a webhook. */
export const WEBHOOK_READS = [
  'GET /webhooks',
  'GET /webhooks/{id}',
  'GET /webhooks/{id}/deliveries',
] as const;

const WEBHOOK: Record<Webhook['status'], { tone: Tone; label: string }> = {
  active: { tone: 'good', label: 'Active' },
  failing: { tone: 'warning', label: 'Failing' },
  paused: { tone: 'warning', label: 'Paused' },
  disabled: { tone: 'neutral', label: 'Disabled' },
  disabled_by_server: { tone: 'bad', label: 'Disabled by the server' },
};

export function WebhookStatus({ status }: { status: Webhook['status'] }) {
  return <StateBadge {...WEBHOOK[status]} />;
}

const DELIVERY: Record<WebhookDelivery['status'], { tone: Tone; label: string }> = {
  pending: { tone: 'busy', label: 'Waiting' },
  delivered: { tone: 'good', label: 'Delivered' },
  failed: { tone: 'bad', label: 'Failed' },
};

export function DeliveryStatus({ status }: { status: WebhookDelivery['status'] }) {
  return <StateBadge {...DELIVERY[status]} />;
}

const REASONS = {
  gone: 'The receiver answered 410 Gone. What waited for it has failed, and can be replayed.',
  failing: 'No delivery succeeded for 3 days. What waited for it has failed, and can be replayed.',
} as const;

/** Why the server sends nothing, if it has decided that. */
export const disabledText = ({ disabledReason }: Webhook): string | undefined =>
  disabledReason === null ? undefined : REASONS[disabledReason];

/** The secret of a webhook, right after it was made. */
export function NewSecret({ secret }: { secret: string }) {
  return (
    <Notice tone="warning" icon={IconKey} title="The secret is shown only now" role="status">
      <Stack gap="xs">
        <CopyText label="The secret" text={secret} />
        <Text size="sm">
          The receiver checks the signature of each request with it, as the Standard Webhooks specification
          says.
        </Text>
      </Stack>
    </Notice>
  );
}
