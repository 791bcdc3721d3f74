import { Group, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, useList, type Partner } from '../../api/index.ts';
import { DIRECTORY, useOrganizations } from '../../directory.ts';
import {
  Action,
  Done,
  FormDialog,
  formatWord,
  ListPage,
  slugOf,
  StateBadge,
  TextLink,
  useAddress,
  useForm,
  type Tone,
} from '../../ui/index.ts';

const route = getRouteApi('/signed-in/providers');
const TONES: Record<Partner['status'], Tone> = {
  active: 'good',
  pending: 'info',
  suspended: 'warning',
  churned: 'neutral',
};

/** The companies whose customers this server manages. For system administrators. */
export function ProvidersPage() {
  const address = useAddress(route.useSearch());
  const [edited, setEdited] = useState<Partner | 'new'>();
  const [created, setCreated] = useState<Partner>();
  const organizations = useOrganizations();
  const providers = useList('GET /orgs/partners', { query: { page: String(address.search.page ?? 1) } });
  const newProvider = (
    <Action icon={IconPlus} onClick={() => setEdited('new')}>
      New provider
    </Action>
  );
  return (
    <ListPage
      title="Providers"
      description="Companies that look after customers with this server. Each sees its own customers only."
      actions={newProvider}
      notice={
        created !== undefined && (
          <Done title={`${created.name} is created`} onClose={() => setCreated(undefined)}>
            <Group gap="xs">
              <Text size="sm">Go on with its</Text>
              <TextLink size="sm" to="/organizations">
                first organization
              </TextLink>
              <Text size="sm">or its</Text>
              <TextLink size="sm" to="/people">
                people
              </TextLink>
            </Group>
          </Done>
        )
      }
      query={providers}
      noun="providers"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No providers yet',
        text: 'A provider is the company that looks after customers: your own, or one that you run this server for. Organizations, devices and people belong to a provider.',
        action: newProvider,
      }}
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
        { header: 'Device limit', align: 'right', cell: ({ maxDevices }) => maxDevices ?? 'No limit' },
        {
          header: 'Actions',
          align: 'right',
          cell: (provider) => (
            <Action inRow onClick={() => setEdited(provider)}>
              Change
            </Action>
          ),
        },
      ]}
    >
      {edited !== undefined && (
        <ProviderDialog
          provider={edited === 'new' ? undefined : edited}
          onClose={() => setEdited(undefined)}
          onCreated={setCreated}
        />
      )}
    </ListPage>
  );
}

/** Creates a provider, or changes the one that is given. */
function ProviderDialog({
  provider,
  onClose,
  onCreated,
}: {
  provider: Partner | undefined;
  onClose: () => void;
  onCreated: (provider: Partner) => void;
}) {
  const form = useForm({
    name: provider?.name ?? '',
    slug: provider?.slug,
    type: provider?.type ?? ('msp' as const),
    status: provider?.status ?? ('active' as const),
    maxOrganizations: provider?.maxOrganizations ?? null,
    maxDevices: provider?.maxDevices ?? null,
  });
  const queries = useQueryClient();
  const create = useApiChange('POST /orgs/partners', { refreshes: ['GET /orgs/partners'] });
  const change = useApiChange('PATCH /orgs/partners/{id}', { refreshes: ['GET /orgs/partners'] });
  const submit = async () => {
    const { slug = slugOf(form.values.name), status, ...body } = form.values;
    if (provider === undefined) onCreated(await create.mutateAsync({ body: { ...body, slug } }));
    else await change.mutateAsync({ params: { id: provider.id }, body: { ...body, status } });
    await queries.invalidateQueries({ queryKey: [DIRECTORY] });
  };
  return (
    <FormDialog
      title={provider === undefined ? 'New provider' : `Change ${provider.name}`}
      onClose={onClose}
      submit={submit}
      submitLabel={provider === undefined ? 'Create provider' : 'Save'}
      form={form}
      fields={[
        { name: 'name', label: 'Name', required: true },
        provider === undefined
          ? {
              name: 'slug',
              label: 'Short name',
              description: 'For addresses: small letters, digits and hyphens.',
              required: true,
              shown: slugOf(form.values.name),
              empty: undefined,
            }
          : {
              name: 'status',
              kind: 'choice',
              label: 'Status',
              description: 'The people of a provider that is not active cannot sign in.',
              options: ['active', 'pending', 'suspended', 'churned'],
            },
        {
          name: 'type',
          kind: 'choice',
          label: 'Kind',
          options: [
            { value: 'msp', label: 'Service provider, for customers' },
            { value: 'enterprise', label: 'Company, for its own parts' },
            { value: 'internal', label: 'Internal, for tests' },
          ],
        },
        {
          name: 'maxOrganizations',
          kind: 'number',
          label: 'Organization limit',
          description: 'Empty: no limit.',
          min: 0,
          empty: null,
        },
        {
          name: 'maxDevices',
          kind: 'number',
          label: 'Device limit',
          description: 'Of all its organizations together. Empty: no limit.',
          min: 0,
          empty: null,
        },
      ]}
    />
  );
}
