import { Anchor, Button } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { apiQuery, type Organization } from '../../api/index.ts';
import { useNames, useProviders, useSites } from '../../directory/index.ts';
import { useMe, useRefusal } from '../../session/index.ts';
import { Action, Empty, formatWord, Loaded, Page, PagedTable } from '../../ui/index.ts';
import { OrganizationDialog } from './organization-dialog.tsx';
import { OrganizationStatus } from './organization-status.tsx';

const route = getRouteApi('/signed-in/organizations');

/** The customers of a provider, each with its sites. */
export function OrganizationsPage() {
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const [isOpen, { open, close }] = useDisclosure(false);
  const me = useMe();
  const names = useNames();
  const lacksProvider = useProviders()?.length === 0 && me.scope === 'system';
  const mayWrite = useRefusal({ permission: 'organizations:write', scopes: ['partner', 'system'] });
  const refusal =
    mayWrite ??
    (lacksProvider ? 'An organization belongs to a provider. Create a provider first.' : undefined);
  const sites = useSites();
  const organizations = useQuery({
    ...apiQuery('GET /orgs/organizations', { query: { page: String(page ?? 1) } }),
    placeholderData: keepPreviousData,
  });
  const newOrganization = (
    <Action refusal={refusal} leftSection={<IconPlus size={14} aria-hidden />} onClick={open}>
      New organization
    </Action>
  );
  return (
    <Page
      title="Organizations"
      description="Your customers, and where their devices stand."
      actions={newOrganization}
    >
      <Loaded query={organizations} what="Reading organizations">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty
              title="No organizations yet"
              action={
                lacksProvider ? (
                  <Button renderRoot={(props) => <Link {...props} to="/providers" />}>
                    Create a provider first
                  </Button>
                ) : (
                  newOrganization
                )
              }
            >
              An organization is a customer. It has sites, devices and people of its own, which no other
              customer sees.
            </Empty>
          ) : (
            <PagedTable
              label="Organizations"
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
                        <Link
                          {...props}
                          to="/organizations/$organizationId"
                          params={{ organizationId: id }}
                        />
                      )}
                    >
                      {name}
                    </Anchor>
                  ),
                },
                ...(me.scope === 'system'
                  ? [
                      {
                        header: 'Provider',
                        cell: ({ partnerId }: Organization) => names.provider(partnerId),
                      },
                    ]
                  : []),
                { header: 'Status', cell: ({ status }) => <OrganizationStatus status={status} /> },
                { header: 'Kind', cell: ({ type }) => formatWord(type) },
                {
                  header: 'Sites',
                  align: 'right',
                  cell: ({ id }) => sites.filter(({ orgId }) => orgId === id).length,
                },
                {
                  header: 'Device limit',
                  align: 'right',
                  cell: ({ maxDevices }) => maxDevices ?? 'No limit',
                },
                {
                  header: 'Devices',
                  align: 'right',
                  cell: ({ id }) => (
                    <Anchor
                      inherit
                      renderRoot={(props) => <Link {...props} to="/devices" search={{ org: id }} />}
                    >
                      Show devices
                    </Anchor>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <OrganizationDialog
        opened={isOpen}
        onClose={close}
        onCreated={({ id }) =>
          void navigate({ to: '/organizations/$organizationId', params: { organizationId: id } })
        }
      />
    </Page>
  );
}
