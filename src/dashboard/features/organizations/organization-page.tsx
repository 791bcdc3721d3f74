import { useDisclosure } from '@mantine/hooks';
import { IconPencil, IconPlus } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type Site } from '../../api/index.ts';
import { DIRECTORY, useSites } from '../../directory.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ButtonLink,
  ConfirmAction,
  Empty,
  Loaded,
  Page,
  PagedTable,
  TextLink,
} from '../../ui/index.ts';
import { GettingStarted } from '../getting-started/index.ts';
import { OrganizationTerminals } from '../terminals/index.ts';
import { OrganizationDialog, SiteDialog, OrganizationStatus } from './organizations-page.tsx';

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
  const seesReports = useRefusal('devices:read') === undefined;
  const newSite = (
    <Action refusal={mayWriteSites} icon={IconPlus} onClick={adding.open}>
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
              {seesReports && (
                <ButtonLink size="xs" variant="default" to="/reports" search={{ org: id }}>
                  Report
                </ButtonLink>
              )}
              <Action variant="default" refusal={mayWrite} icon={IconPencil} onClick={changing.open}>
                Change
              </Action>
              {newSite}
            </>
          }
        >
          <GettingStarted orgId={id} />
          {sites.length === 0 ? (
            <Empty title="No sites yet" action={newSite}>
              A site is a place with devices. Its time zone decides when schedules and maintenance windows
              begin.
            </Empty>
          ) : (
            <SiteTable sites={sites} />
          )}
          <OrganizationTerminals orgId={id} />
          {isChanging && <OrganizationDialog organization={data} onClose={changing.close} />}
          {isAdding && <SiteDialog orgId={id} onClose={adding.close} />}
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
              <TextLink inherit to="/devices" search={{ org: orgId, site: id }}>
                Show devices
              </TextLink>
            ),
          },
          {
            header: 'Actions',
            align: 'right',
            cell: (site) => (
              <>
                <Action inRow refusal={mayWrite} onClick={() => setChanged(site)}>
                  Change
                </Action>
                <ConfirmAction
                  inRow
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
          onClose={() => setChanged(undefined)}
        />
      )}
    </>
  );
}
