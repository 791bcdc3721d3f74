import { Anchor, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { apiQuery } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Empty, Loaded, PagedTable, When } from '../../../ui/index.ts';
import { SettingsFrame } from '../settings-frame.tsx';
import { NewSecret } from './new-secret.tsx';
import { WebhookDialog } from './webhook-dialog.tsx';
import { WebhookStatus } from './webhook-status.tsx';

const route = getRouteApi('/signed-in/settings/webhooks');

/** Where events are sent as they happen. */
export function WebhooksPage() {
  const [isOpen, setOpen] = useState(false);
  const [secret, setSecret] = useState<string>();
  const refusal = useRefusal('webhooks:write');
  const add = (
    <Action refusal={refusal} leftSection={<IconPlus size={14} aria-hidden />} onClick={() => setOpen(true)}>
      New webhook
    </Action>
  );
  return (
    <SettingsFrame
      title="Webhooks"
      description="Events are sent to other systems as they happen: signed, and again until they arrive."
      actions={add}
      requires="webhooks:read"
    >
      <Stack>
        {secret !== undefined && <NewSecret secret={secret} />}
        <Webhooks add={add} />
      </Stack>
      {isOpen && <WebhookDialog onClose={() => setOpen(false)} onMade={setSecret} />}
    </SettingsFrame>
  );
}

function Webhooks({ add }: { add: ReactNode }) {
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = useScope();
  const names = useNames();
  const webhooks = useQuery({
    ...apiQuery('GET /webhooks', { query: { orgId, page: String(page ?? 1) } }),
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={webhooks} what="Reading webhooks">
      {({ data, pagination }) =>
        data.length === 0 ? (
          <Empty title="No webhooks" action={add}>
            Such as a ticket system that opens a ticket for each alert.
          </Empty>
        ) : (
          <PagedTable
            label="Webhooks"
            rows={data}
            keyOf={({ id }) => id}
            page={pagination}
            onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
            columns={[
              {
                header: 'Name',
                isName: true,
                cell: ({ id, name }) => (
                  <Anchor
                    inherit
                    renderRoot={(props) => (
                      <Link {...props} to="/settings/webhooks/$webhookId" params={{ webhookId: id }} />
                    )}
                  >
                    {name}
                  </Anchor>
                ),
              },
              { header: 'Host', cell: ({ url }) => new URL(url).host },
              {
                header: 'Events of',
                cell: ({ orgId: owner }) =>
                  owner === null ? 'All organizations' : names.organization(owner),
              },
              {
                header: 'Events',
                cell: ({ eventTypes }) => <Text size="xs">{eventTypes.join(', ')}</Text>,
              },
              { header: 'State', cell: ({ status }) => <WebhookStatus status={status} /> },
              { header: 'Last success', cell: ({ lastSuccessAt }) => <When at={lastSuccessAt} /> },
            ]}
          />
        )
      }
    </Loaded>
  );
}
