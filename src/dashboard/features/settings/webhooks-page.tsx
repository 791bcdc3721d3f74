import { Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useList } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import { Action, When, TextLink, ListPage, useAddress } from '../../ui/index.ts';
import { SettingsFrame } from './settings-frame.tsx';
import { WebhookDialog, NewSecret, WebhookStatus } from './webhook-dialog.tsx';

const route = getRouteApi('/signed-in/settings/webhooks');

/** Where events are sent as they happen. */
export function WebhooksPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = useScope();
  const names = useNames();
  const [isOpen, setOpen] = useState(false);
  const [secret, setSecret] = useState<string>();
  const refusal = useRefusal('webhooks:write');
  const webhooks = useList('GET /webhooks', { query: { orgId, page: String(address.search.page ?? 1) } });
  const add = (
    <Action refusal={refusal} icon={IconPlus} onClick={() => setOpen(true)}>
      New webhook
    </Action>
  );
  return (
    <ListPage
      frame={SettingsFrame}
      title="Webhooks"
      description="Events are sent to other systems as they happen: signed, and again until they arrive."
      actions={add}
      notice={secret !== undefined && <NewSecret secret={secret} />}
      query={webhooks}
      noun="webhooks"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No webhooks',
        text: 'Such as a ticket system that opens a ticket for each alert.',
        action: add,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ id, name }) => (
            <TextLink inherit to="/settings/webhooks/$webhookId" params={{ webhookId: id }}>
              {name}
            </TextLink>
          ),
        },
        { header: 'Host', cell: ({ url }) => new URL(url).host },
        {
          header: 'Events of',
          cell: ({ orgId: owner }) => (owner === null ? 'All organizations' : names.organization(owner)),
        },
        {
          header: 'Events',
          cell: ({ eventTypes }) => <Text size="xs">{eventTypes.join(', ')}</Text>,
        },
        { header: 'State', cell: ({ status }) => <WebhookStatus status={status} /> },
        { header: 'Last success', cell: ({ lastSuccessAt }) => <When at={lastSuccessAt} /> },
      ]}
    >
      {isOpen && <WebhookDialog onClose={() => setOpen(false)} onMade={setSecret} />}
    </ListPage>
  );
}
