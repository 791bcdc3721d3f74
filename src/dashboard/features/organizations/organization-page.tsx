import { Anchor } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPencil, IconPlus } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type Site } from '../../api/index.ts';
import { DIRECTORY, useSites } from '../../directory/index.ts';
import { useRefusal } from '../../session/index.ts';
import { Action, ConfirmAction, Empty, Loaded, Page, PagedTable } from '../../ui/index.ts';
import { GettingStarted } from '../getting-started/index.ts';
import { OrganizationDialog } from './organization-dialog.tsx';
import { OrganizationStatus } from './organization-status.tsx';
import { SiteDialog } from './site-dialog.tsx';

const route = getRouteApi('/signed-in/organizations/$organizationId');

/** One customer with its sites. */
export function OrganizationPage() {
  const { organizationId: id } = route.useParams();
  const organization = useQuery(apiQuery('GET /orgs/organizations/{id}', { params: { id } }));
  const sites = useSites(id);
  const [isChanging, changing] = useDisclosure(false);
  const [isAdding, adding] = useDisclosure(false);
  const mayWrite = useRefusal({ permission: 'organizations:write', scopes: ['partner', 'system'] });
  const mayWriteSites = useRefusal('sites:write');
  const newSite = (
    <Action refusal={mayWriteSites} leftSection={<IconPlus size={14} aria-hidden />} onClick={adding.open}>
      New site
    </Action>
  );
  return (
    <Loaded query={organization} what="Reading the organization">
      {(data) => (
        <Page
          title={data.name}
          description={<OrganizationStatus status={data.status} />}
          actions={
            <>
              <Action
                variant="default"
                refusal={mayWrite}
                leftSection={<IconPencil size={14} aria-hidden />}
                onClick={changing.open}
              >
                Change
              </Action>
              {newSite}
            </>
          }
        >
          <GettingStarted orgId={id} />
          {sites.length === 0 ? (
            <Empty title="No sites yet" action={newSite}>
              A site is a place with devices. Its time zone decides when schedules and windows begin.
            </Empty>
          ) : (
            <SiteTable sites={sites} />
          )}
          <OrganizationDialog
            key={data.updatedAt}
            organization={data}
            opened={isChanging}
            onClose={changing.close}
          />
          <SiteDialog orgId={id} opened={isAdding} onClose={adding.close} />
        </Page>
      )}
    </Loaded>
  );
}

function SiteTable({ sites }: { sites: readonly Site[] }) {
  const [changed, setChanged] = useState<Site>();
  const mayWrite = useRefusal('sites:write');
  const mayDelete = useRefusal('sites:delete');
  const queries = useQueryClient();
  const remove = useApiChange('DELETE /orgs/sites/{id}');
  return (
    <>
      <PagedTable
        label="Sites"
        rows={sites}
        keyOf={({ id }) => id}
        columns={[
          { header: 'Name', isName: true, cell: ({ name }) => name },
          { header: 'Time zone', cell: ({ timezone }) => timezone },
          {
            header: 'Devices',
            cell: ({ id, orgId }) => (
              <Anchor
                inherit
                renderRoot={(props) => <Link {...props} to="/devices" search={{ org: orgId, site: id }} />}
              >
                Show devices
              </Anchor>
            ),
          },
          {
            header: 'Actions',
            align: 'right',
            cell: (site) => (
              <>
                <Action
                  size="compact-xs"
                  variant="subtle"
                  refusal={mayWrite}
                  onClick={() => setChanged(site)}
                >
                  Change
                </Action>
                <ConfirmAction
                  size="compact-xs"
                  variant="subtle"
                  refusal={mayDelete}
                  title={`Delete ${site.name}`}
                  question="A site can be deleted when no device belongs to it."
                  confirm="Delete"
                  run={async () => {
                    await remove.mutateAsync({ params: { id: site.id } });
                    await queries.invalidateQueries({ queryKey: [DIRECTORY] });
                  }}
                >
                  Delete
                </ConfirmAction>
              </>
            ),
          },
        ]}
      />
      {changed !== undefined && (
        <SiteDialog
          key={changed.id}
          orgId={changed.orgId}
          site={changed}
          opened
          onClose={() => setChanged(undefined)}
        />
      )}
    </>
  );
}
