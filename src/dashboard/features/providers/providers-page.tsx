import { Alert, Anchor, Group, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconCheck, IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, type Partner } from '../../api/index.ts';
import { useOrganizations } from '../../directory/index.ts';
import {
  Action,
  Empty,
  formatWord,
  Loaded,
  Page,
  PagedTable,
  StateBadge,
  type Tone,
} from '../../ui/index.ts';
import { ProviderDialog } from './provider-dialog.tsx';

const route = getRouteApi('/signed-in/providers');
const TONES: Record<Partner['status'], Tone> = {
  active: 'good',
  pending: 'info',
  suspended: 'warning',
  churned: 'neutral',
};

/** The companies whose customers this server manages. For system administrators. */
export function ProvidersPage() {
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const [isOpen, { open, close }] = useDisclosure(false);
  const [changed, setChanged] = useState<Partner>();
  const [created, setCreated] = useState<Partner>();
  const organizations = useOrganizations();
  const providers = useQuery({
    ...apiQuery('GET /orgs/partners', { query: { page: String(page ?? 1) } }),
    placeholderData: keepPreviousData,
  });
  const newProvider = (
    <Action leftSection={<IconPlus size={14} aria-hidden />} onClick={open}>
      New provider
    </Action>
  );
  return (
    <Page
      title="Providers"
      description="Companies that look after customers with this server. Each sees its own customers only."
      actions={newProvider}
    >
      {created !== undefined && (
        <Alert
          color="teal"
          icon={<IconCheck aria-hidden />}
          title={`${created.name} is created`}
          withCloseButton
          closeButtonLabel="Close"
          onClose={() => setCreated(undefined)}
        >
          <Group gap="xs">
            <Text size="sm">Go on with its</Text>
            <Anchor size="sm" renderRoot={(props) => <Link {...props} to="/organizations" />}>
              first organization
            </Anchor>
            <Text size="sm">or its</Text>
            <Anchor size="sm" renderRoot={(props) => <Link {...props} to="/people" />}>
              people
            </Anchor>
          </Group>
        </Alert>
      )}
      <Loaded query={providers} what="Reading providers">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No providers yet" action={newProvider}>
              A provider is the company that looks after customers: your own, or one that you run this server
              for. Organizations, devices and people belong to a provider.
            </Empty>
          ) : (
            <PagedTable
              label="Providers"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
              columns={[
                { header: 'Name', isName: true, cell: ({ name }) => name },
                {
                  header: 'Status',
                  cell: ({ status }) => <StateBadge tone={TONES[status]} label={formatWord(status)} />,
                },
                {
                  header: 'Organizations',
                  align: 'right',
                  cell: ({ id }) => organizations.filter(({ partnerId }) => partnerId === id).length,
                },
                {
                  header: 'Organization limit',
                  align: 'right',
                  cell: ({ maxOrganizations }) => maxOrganizations ?? 'No limit',
                },
                {
                  header: 'Device limit',
                  align: 'right',
                  cell: ({ maxDevices }) => maxDevices ?? 'No limit',
                },
                {
                  header: 'Actions',
                  align: 'right',
                  cell: (provider) => (
                    <Action size="compact-xs" variant="subtle" onClick={() => setChanged(provider)}>
                      Change
                    </Action>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <ProviderDialog key={created?.id ?? 'first'} opened={isOpen} onClose={close} onCreated={setCreated} />
      {changed !== undefined && (
        <ProviderDialog key={changed.id} provider={changed} opened onClose={() => setChanged(undefined)} />
      )}
    </Page>
  );
}
