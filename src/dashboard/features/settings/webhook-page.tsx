import { Group, Stack, Text, Code, Table } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  apiQuery,
  useApiChange,
  type Webhook,
  type WebhookDeliveryDetail,
  useList,
} from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  Failure,
  formatCounted,
  Loaded,
  Panel,
  When,
  Modal,
  TextLink,
  List,
  useAddress,
  Notice,
} from '../../ui/index.ts';
import { SettingsFrame } from './settings-frame.tsx';
import {
  WebhookDialog,
  NewSecret,
  disabledText,
  WebhookStatus,
  WEBHOOK_READS,
  DeliveryStatus,
} from './webhook-dialog.tsx';

const route = getRouteApi('/signed-in/settings/webhooks/$webhookId');

/** One webhook: how it does, and the log of what was sent to it. */
export function WebhookPage() {
  const { webhookId: id } = route.useParams();
  return (
    <SettingsFrame
      title="Webhook"
      description={
        <TextLink inherit to="/settings/webhooks">
          All webhooks
        </TextLink>
      }
      requires="webhooks:read"
    >
      <Whole key={id} id={id} />
    </SettingsFrame>
  );
}

function Whole({ id }: { id: string }) {
  const webhook = useQuery(apiQuery('GET /webhooks/{id}', { params: { id } }));
  return (
    <Loaded query={webhook} what="Reading the webhook">
      {(data) => (
        <Stack>
          <Summary webhook={data} />
          <Deliveries webhook={data} />
        </Stack>
      )}
    </Loaded>
  );
}

function Summary({ webhook }: { webhook: Webhook }) {
  const names = useNames();
  const navigate = useNavigate();
  const refusal = useRefusal('webhooks:write');
  const deleteRefusal = useRefusal('webhooks:delete');
  const [isChanging, setChanging] = useState(false);
  const [secret, setSecret] = useState<string>();
  const params = { id: webhook.id };
  const test = useApiChange('POST /webhooks/{id}/test');
  const rotate = useApiChange('POST /webhooks/{id}/rotate-secret', { refreshes: WEBHOOK_READS });
  const remove = useApiChange('DELETE /webhooks/{id}', { refreshes: ['GET /webhooks'] });
  const why = disabledText(webhook);
  return (
    <Panel title={webhook.name} aside={<WebhookStatus status={webhook.status} />}>
      <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
        {webhook.eventTypes.join(', ')} of{' '}
        {webhook.orgId === null ? 'all organizations' : names.organization(webhook.orgId)} to {webhook.url}
      </Text>
      <Text size="sm" c="dimmed" component="div">
        Last success: <When at={webhook.lastSuccessAt} />
        {webhook.failingSince !== null && (
          <>
            . {formatCounted(webhook.failures, 'attempt')} failed in a row, the first{' '}
            <When at={webhook.failingSince} />
          </>
        )}
        {webhook.previousSecretUntil !== null && (
          <>
            . The previous secret ends <When at={webhook.previousSecretUntil} />
          </>
        )}
      </Text>
      {why !== undefined && (
        <Notice tone="bad" title="The server has disabled this webhook">
          {why}
        </Notice>
      )}
      {secret !== undefined && <NewSecret secret={secret} />}
      <Group gap="xs">
        <Action
          variant="default"
          refusal={refusal}
          loading={test.isPending}
          onClick={() => test.mutate({ params })}
        >
          Send a test
        </Action>
        <Action variant="default" refusal={refusal} onClick={() => setChanging(true)}>
          Change
        </Action>
        <ConfirmAction
          variant="default"
          color="blue"
          refusal={refusal}
          title="Replace the secret"
          question="Requests are signed with both secrets for 24 hours, so that the receiver can change over."
          confirm="Replace"
          run={async () => setSecret((await rotate.mutateAsync({ params, body: {} })).secret)}
        >
          Replace the secret
        </ConfirmAction>
        <ConfirmAction
          variant="default"
          refusal={deleteRefusal}
          title={`Delete “${webhook.name}”`}
          question="The webhook and its log are deleted. This cannot be undone."
          confirm="Delete"
          run={async () => {
            await remove.mutateAsync({ params });
            await navigate({ to: '/settings/webhooks' });
          }}
        >
          Delete
        </ConfirmAction>
      </Group>
      {test.error !== null && <Failure error={test.error} />}
      {test.data !== undefined && <TestResult result={test.data} />}
      {isChanging && <WebhookDialog webhook={webhook} onClose={() => setChanging(false)} />}
    </Panel>
  );
}

interface Result {
  ok: boolean;
  responseStatus: number | null;
  durationMs: number;
  error: string | null;
}

function TestResult({ result: { ok, responseStatus, durationMs, error } }: { result: Result }) {
  return (
    <Notice
      tone={ok ? 'good' : 'bad'}
      title={ok ? 'The receiver took the test' : 'The test failed'}
      role="status"
    >
      {error ?? `It answered ${responseStatus} after ${durationMs} ms.`}
    </Notice>
  );
}

const STATUSES = [
  { value: 'pending', label: 'Waiting' },
  { value: 'delivered', label: 'Delivered' },
  { value: 'failed', label: 'Failed' },
] as const;
const REFRESH_MS = 5000;
const DAY_MS = 86_400_000;

/** The log of a webhook. */
function Deliveries({ webhook }: { webhook: Webhook }) {
  const { id } = webhook;
  const address = useAddress(route.useSearch());
  const { page = 1, status } = address.search;
  const [shown, setShown] = useState<string>();
  const held = useRefusal('webhooks:write');
  const refusal = held ?? (webhook.enabled ? undefined : 'The webhook is disabled. Enable it first.');
  const replay = useApiChange('POST /webhooks/{id}/deliveries/{deliveryId}/replay', {
    refreshes: WEBHOOK_READS,
  });
  const replayDay = useApiChange('POST /webhooks/{id}/replay', { refreshes: WEBHOOK_READS });
  const deliveries = useList(
    'GET /webhooks/{id}/deliveries',
    {
      params: { id },
      query: { page: String(page), limit: '25', status },
    },
    REFRESH_MS,
  );
  return (
    <Panel
      title="Deliveries"
      aside={
        <ConfirmAction
          size="xs"
          variant="default"
          color="blue"
          refusal={refusal}
          title="Replay what failed"
          question="Events whose delivery failed in the last 24 hours are sent again, each once. Receivers know them by their id."
          confirm="Replay"
          run={() => {
            const now = Date.now();
            return replayDay.mutateAsync({
              params: { id },
              body: { from: new Date(now - DAY_MS).toISOString(), to: new Date(now).toISOString() },
            });
          }}
        >
          Replay what failed
        </ConfirmAction>
      }
    >
      <List
        query={deliveries}
        noun="deliveries"
        keyOf={(delivery) => delivery.id}
        address={address}
        facets={[
          {
            kind: 'choice',
            name: 'status',
            label: 'State of the deliveries',
            any: 'All states',
            options: STATUSES,
          },
        ]}
        empty={{
          title: 'Nothing was sent yet',
          text: 'The log has what was sent in the last 14 days, and up to a week more.',
        }}
        noneFound={{
          title: 'No delivery is in this state',
          text: 'The log has what was sent in the last 14 days, and up to a week more.',
        }}
        columns={[
          { header: 'Event', isName: true, cell: ({ eventType }) => eventType },
          { header: 'Added', cell: ({ createdAt }) => <When at={createdAt} /> },
          { header: 'State', cell: (delivery) => <DeliveryStatus status={delivery.status} /> },
          { header: 'Attempts', align: 'right', cell: ({ attempts }) => attempts },
          {
            header: 'Last response',
            cell: ({ responseStatus, error }) => error ?? responseStatus ?? '–',
          },
          {
            header: 'Next attempt',
            cell: ({ nextAttemptAt }) => <When at={nextAttemptAt} never="–" />,
          },
          {
            header: 'Actions',
            align: 'right',
            cell: (delivery) => (
              <>
                <Action inRow onClick={() => setShown(delivery.id)}>
                  Show
                </Action>
                {delivery.status !== 'pending' && (
                  <ConfirmAction
                    inRow
                    color="blue"
                    refusal={refusal}
                    title="Replay this event"
                    question="It is sent again, with the same id."
                    confirm="Replay"
                    run={() =>
                      replay.mutateAsync({
                        params: { id, deliveryId: delivery.id },
                      })
                    }
                  >
                    Replay
                  </ConfirmAction>
                )}
              </>
            ),
          },
        ]}
      />
      {shown !== undefined && (
        <DeliveryDialog webhookId={id} deliveryId={shown} onClose={() => setShown(undefined)} />
      )}
    </Panel>
  );
}

/** One delivery with what was sent, and what the receiver answered. */
function DeliveryDialog({
  webhookId,
  deliveryId,
  onClose,
}: {
  webhookId: string;
  deliveryId: string;
  onClose: () => void;
}) {
  const delivery = useQuery(
    apiQuery('GET /webhooks/{id}/deliveries/{deliveryId}', { params: { id: webhookId, deliveryId } }),
  );
  return (
    <Modal opened onClose={onClose} title="Delivery" size="lg">
      <Loaded query={delivery} what="Reading the delivery">
        {(data) => <Detail delivery={data} />}
      </Loaded>
    </Modal>
  );
}

function Detail({ delivery }: { delivery: WebhookDeliveryDetail }) {
  const names = useNames();
  const { eventOrgId, durationMs } = delivery;
  const rows = [
    ['Event', delivery.eventType],
    ['Id', delivery.eventId],
    ['Organization', eventOrgId === null ? 'None' : names.organization(eventOrgId)],
    ['Happened', <When key="at" at={delivery.eventAt} />],
    ['State', <DeliveryStatus key="status" status={delivery.status} />],
    ['Attempts', delivery.attempts],
    ['Last attempt', <When key="attempt" at={delivery.lastAttemptAt} />],
    ['Response', delivery.responseStatus ?? 'None'],
    ['Time to respond', durationMs === null ? '–' : `${durationMs} ms`],
    ['Error', delivery.error ?? '–'],
  ] as const;
  return (
    <Stack gap="sm">
      <Table aria-label="The delivery" verticalSpacing={4}>
        <Table.Tbody>
          {rows.map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Th scope="row" w={150} fw={500}>
                {name}
              </Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Text size="sm" fw={500}>
        Data of the event
      </Text>
      {delivery.data === null ? (
        <Text size="sm" c="dimmed">
          You do not have the permission to read such events.
        </Text>
      ) : (
        <Long label="Data of the event" text={JSON.stringify(delivery.data, null, 2)} />
      )}
      {delivery.responseExcerpt !== null && (
        <>
          <Text size="sm" fw={500}>
            Beginning of the response
          </Text>
          <Long label="Beginning of the response" text={delivery.responseExcerpt} />
        </>
      )}
    </Stack>
  );
}

function Long({ label, text }: { label: string; text: string }) {
  return (
    <Code
      block
      aria-label={label}
      role="region"
      tabIndex={0}
      mah={260}
      style={{ overflow: 'auto', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}
    >
      {text}
    </Code>
  );
}
