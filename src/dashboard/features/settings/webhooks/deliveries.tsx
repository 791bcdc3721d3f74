import { Group, Select } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type Webhook } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, ConfirmAction, Empty, Loaded, PagedTable, Panel, When } from '../../../ui/index.ts';
import { DeliveryDialog } from './delivery-dialog.tsx';
import { WEBHOOK_READS } from './webhook-reads.ts';
import { DeliveryStatus } from './webhook-status.tsx';

const route = getRouteApi('/signed-in/settings/webhooks/$webhookId');

const STATUSES = [
  { value: 'pending', label: 'Waiting' },
  { value: 'delivered', label: 'Delivered' },
  { value: 'failed', label: 'Failed' },
] as const;
const REFRESH_MS = 5000;
const DAY_MS = 86_400_000;

/** The log of a webhook. */
export function Deliveries({ webhook }: { webhook: Webhook }) {
  const { id } = webhook;
  const { page, status } = route.useSearch();
  const navigate = route.useNavigate();
  const [shown, setShown] = useState<string>();
  const held = useRefusal('webhooks:write');
  const refusal = held ?? (webhook.enabled ? undefined : 'The webhook is disabled. Enable it first.');
  const replay = useApiChange('POST /webhooks/{id}/deliveries/{deliveryId}/replay', {
    refreshes: WEBHOOK_READS,
  });
  const replayDay = useApiChange('POST /webhooks/{id}/replay', { refreshes: WEBHOOK_READS });
  const deliveries = useQuery({
    ...apiQuery('GET /webhooks/{id}/deliveries', {
      params: { id },
      query: { page: String(page ?? 1), limit: '25', ...(status === undefined ? {} : { status }) },
    }),
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
  return (
    <Panel
      title="Deliveries"
      aside={
        <Group gap="xs">
          <Select
            aria-label="State of the deliveries"
            placeholder="All states"
            clearable
            size="xs"
            data={[...STATUSES]}
            value={status ?? null}
            onChange={(chosen) =>
              void navigate({
                search: (previous) => ({
                  ...previous,
                  status: STATUSES.find(({ value }) => value === chosen)?.value,
                  page: undefined,
                }),
              })
            }
          />
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
        </Group>
      }
    >
      <Loaded query={deliveries} what="Reading deliveries">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title={status === undefined ? 'Nothing was sent yet' : 'No delivery is in this state'}>
              The log has what was sent in the last 14 days.
            </Empty>
          ) : (
            <PagedTable
              label="Deliveries"
              rows={data}
              keyOf={(delivery) => delivery.id}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
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
                      <Action size="compact-xs" variant="subtle" onClick={() => setShown(delivery.id)}>
                        Show
                      </Action>
                      {delivery.status !== 'pending' && (
                        <ConfirmAction
                          size="compact-xs"
                          variant="subtle"
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
          )
        }
      </Loaded>
      {shown !== undefined && (
        <DeliveryDialog webhookId={id} deliveryId={shown} onClose={() => setShown(undefined)} />
      )}
    </Panel>
  );
}
