import { Code, Modal, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, type WebhookDeliveryDetail } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { Loaded, When } from '../../../ui/index.ts';
import { DeliveryStatus } from './webhook-status.tsx';

/** One delivery with what was sent, and what the receiver answered. */
export function DeliveryDialog({
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
