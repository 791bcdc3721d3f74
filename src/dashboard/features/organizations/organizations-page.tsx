import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useList, useApiChange, type Organization, type Site } from '../../api/index.ts';
import { useNames, useProviders, useSites, choicesOf, DIRECTORY } from '../../directory.ts';
import { useMe, useRefusal } from '../../session.ts';
import {
  Action,
  ButtonLink,
  formatWord,
  ListPage,
  NameCell,
  TextLink,
  useAddress,
  FormDialog,
  slugOf,
  StateBadge,
  TIME_ZONES,
  useForm,
  type Tone,
} from '../../ui/index.ts';
import { useQueryClient } from '@tanstack/react-query';

const route = getRouteApi('/signed-in/organizations');

/** The customers of a provider, each with its sites. */
export function OrganizationsPage() {
  const address = useAddress(route.useSearch());
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
  const organizations = useList('GET /orgs/organizations', {
    query: { page: String(address.search.page ?? 1) },
  });
  const newOrganization = (
    <Action icon={IconPlus} refusal={refusal} onClick={open}>
      New organization
    </Action>
  );
  return (
    <ListPage
      title="Organizations"
      description="Your customers, and where their devices stand."
      actions={newOrganization}
      query={organizations}
      noun="organizations"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No organizations yet',
        text: 'An organization is a customer. It has sites, devices and people of its own, which no other customer sees.',
        action: lacksProvider ? (
          <ButtonLink to="/providers">Create a provider first</ButtonLink>
        ) : (
          newOrganization
        ),
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ id, name }) => (
            <NameCell name={name} to="/organizations/$organizationId" params={{ organizationId: id }} />
          ),
        },
        me.scope === 'system' && {
          header: 'Provider',
          cell: ({ partnerId }) => names.provider(partnerId),
        },
        { header: 'Status', cell: ({ status }) => <OrganizationStatus status={status} /> },
        { header: 'Kind', cell: ({ type }) => formatWord(type) },
        {
          header: 'Sites',
          align: 'right',
          cell: ({ id }) => sites.filter(({ orgId }) => orgId === id).length,
        },
        { header: 'Device limit', align: 'right', cell: ({ maxDevices }) => maxDevices ?? 'No limit' },
        {
          header: 'Devices',
          align: 'right',
          cell: ({ id }) => (
            <TextLink inherit to="/devices" search={{ org: id }}>
              Show devices
            </TextLink>
          ),
        },
      ]}
    >
      {isOpen && (
        <OrganizationDialog
          onClose={close}
          onCreated={({ id }) =>
            void navigate({ to: '/organizations/$organizationId', params: { organizationId: id } })
          }
        />
      )}
    </ListPage>
  );
}

const TONES: Record<Organization['status'], Tone> = {
  active: 'good',
  trial: 'info',
  suspended: 'warning',
  churned: 'neutral',
};

export function OrganizationStatus({ status }: { status: Organization['status'] }) {
  return <StateBadge tone={TONES[status]} label={formatWord(status)} />;
}

/** The zone by which the months of its reports begin; null if none is set. */
function timezoneOf(organization: Organization | undefined): string | null {
  const timezone = organization?.settings['timezone'];
  return typeof timezone === 'string' ? timezone : null;
}

/** Creates an organization, or changes the one that is given. A system administrator chooses its provider. */
export function OrganizationDialog({
  organization,
  onClose,
  onCreated,
}: {
  organization?: Organization;
  onClose: () => void;
  onCreated?: (organization: Organization) => void;
}) {
  const me = useMe();
  const providers = useProviders() ?? [];
  const form = useForm({
    partnerId: organization?.partnerId,
    name: organization?.name ?? '',
    slug: organization?.slug,
    status: organization?.status ?? ('active' as const),
    maxDevices: organization?.maxDevices ?? null,
    timezone: timezoneOf(organization),
  });
  const { slug = slugOf(form.values.name), partnerId = onlyOf(providers), timezone, ...fields } = form.values;
  // Settings are replaced as a whole, so they are sent only when the zone has changed, with all others.
  const body =
    timezone === timezoneOf(organization)
      ? fields
      : { ...fields, settings: { ...organization?.settings, timezone } };
  const queries = useQueryClient();
  const refreshes = ['GET /orgs/organizations', 'GET /orgs/organizations/{id}'] as const;
  const create = useApiChange('POST /orgs/organizations', { refreshes });
  const change = useApiChange('PATCH /orgs/organizations/{id}', { refreshes });
  const submit = async () => {
    if (organization === undefined) {
      const owner = partnerId === undefined ? {} : { partnerId };
      onCreated?.(await create.mutateAsync({ body: { ...body, ...owner, slug } }));
    } else {
      await change.mutateAsync({ params: { id: organization.id }, body });
    }
    await queries.invalidateQueries({ queryKey: [DIRECTORY] });
  };
  return (
    <FormDialog
      title={organization === undefined ? 'New organization' : `Change ${organization.name}`}
      onClose={onClose}
      submit={submit}
      submitLabel={organization === undefined ? 'Create organization' : 'Save'}
      form={form}
      fields={[
        organization === undefined &&
          me.scope === 'system' && {
            name: 'partnerId',
            kind: 'choice',
            label: 'Provider',
            description: 'Who looks after this customer.',
            required: true,
            isSearchable: true,
            options: choicesOf(providers),
            shown: partnerId,
            empty: undefined,
          },
        { name: 'name', label: 'Name', required: true },
        organization === undefined && {
          name: 'slug',
          label: 'Short name',
          description: 'For addresses: small letters, digits and hyphens.',
          required: true,
          shown: slug,
          empty: undefined,
        },
        {
          name: 'status',
          kind: 'choice',
          label: 'Status',
          options: ['active', 'trial', 'suspended', 'churned'],
        },
        {
          name: 'maxDevices',
          kind: 'number',
          label: 'Device limit',
          description: 'Empty: no limit.',
          min: 0,
          empty: null,
        },
        {
          name: 'timezone',
          kind: 'choice',
          label: 'Time zone',
          description: 'By which the months of its reports begin. Empty: UTC.',
          isSearchable: true,
          options:
            timezone === null || TIME_ZONES.includes(timezone) ? TIME_ZONES : [timezone, ...TIME_ZONES],
          empty: null,
        },
      ]}
    />
  );
}

const onlyOf = (things: readonly { id: string }[]): string | undefined =>
  things.length === 1 ? things[0]?.id : undefined;

/** Creates a site of an organization, or changes the one that is given. */
export function SiteDialog({ orgId, site, onClose }: { orgId: string; site?: Site; onClose: () => void }) {
  const form = useForm({
    name: site?.name ?? '',
    timezone: site?.timezone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone,
  });
  const queries = useQueryClient();
  const create = useApiChange('POST /orgs/sites');
  const change = useApiChange('PATCH /orgs/sites/{id}');
  const submit = async () => {
    if (site === undefined) await create.mutateAsync({ body: { orgId, ...form.values } });
    else await change.mutateAsync({ params: { id: site.id }, body: form.values });
    await queries.invalidateQueries({ queryKey: [DIRECTORY] });
  };
  return (
    <FormDialog
      title={site === undefined ? 'New site' : `Change ${site.name}`}
      onClose={onClose}
      submit={submit}
      submitLabel={site === undefined ? 'Create site' : 'Save'}
      form={form}
      fields={[
        { name: 'name', label: 'Name', required: true },
        {
          name: 'timezone',
          kind: 'choice',
          label: 'Time zone',
          description: 'Schedules and maintenance windows follow it.',
          isSearchable: true,
          options: [...new Set([form.values.timezone, ...TIME_ZONES])].map((zone) => ({
            value: zone,
            label: zone,
          })),
        },
      ]}
    />
  );
}
