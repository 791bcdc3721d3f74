import { Group, Select, SimpleGrid, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconUpload } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type AgentRelease, type Answer } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  Action,
  ConfirmAction,
  Empty,
  Failure,
  formatBytes,
  formatCounted,
  formatWord,
  Loaded,
  PagedTable,
  Panel,
  StateBadge,
  SYSTEM_NAMES,
  When,
} from '../../../ui/index.ts';

import { HowToRegister } from './how-to-register.tsx';
import { UploadDialog } from './upload-dialog.tsx';

type Component = AgentRelease['component'];
const COMPONENTS: readonly Component[] = ['agent', 'watchdog', 'helper', 'backup'];
const SYSTEM = { scopes: ['system'] } as const;
const REFRESHES = ['GET /agent-versions', 'GET /agent-versions/pinnable'] as const;

/** What is promoted, and every release that is registered. */
export function ReleasesTab({
  component,
  onComponent,
  page,
  onPage,
}: {
  component: Component | undefined;
  onComponent: (component: Component | undefined) => void;
  page: number;
  onPage: (page: number) => void;
}) {
  const refusal = useRefusal(SYSTEM);
  const [isUploading, uploading] = useDisclosure(false);
  const releases = useQuery({
    ...apiQuery('GET /agent-versions', { query: { component, page: String(page) } }),
    placeholderData: keepPreviousData,
  });
  return (
    <Stack gap="sm">
      <Promoted />
      <Group justify="space-between" align="flex-end">
        <Select
          aria-label="Component"
          placeholder="Any component"
          clearable
          data={COMPONENTS.map((value) => ({ value, label: formatWord(value) }))}
          value={component ?? null}
          onChange={(value) => onComponent(COMPONENTS.find((one) => one === value))}
        />
        <Group gap="xs" align="flex-start">
          <SyncFromGithub refusal={refusal} />
          <Action
            refusal={refusal}
            leftSection={<IconUpload size={14} aria-hidden />}
            onClick={uploading.open}
          >
            Upload
          </Action>
        </Group>
      </Group>
      <Loaded query={releases} what="Reading releases">
        {({ data, pagination }) =>
          data.length === 0 ? (
            component === undefined ? (
              <HowToRegister />
            ) : (
              <Empty title="No releases of this component">Choose another component, or any.</Empty>
            )
          ) : (
            <PagedTable
              label="Releases"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={onPage}
              columns={[
                {
                  header: 'Version',
                  isName: true,
                  cell: ({ version, isPrerelease }) => (
                    <Group gap={6}>
                      {version}
                      {isPrerelease && <StateBadge tone="warning" label="Preview" />}
                    </Group>
                  ),
                },
                { header: 'Component', cell: (release) => formatWord(release.component) },
                { header: 'Platform', cell: ({ os, architecture }) => `${SYSTEM_NAMES[os]} ${architecture}` },
                {
                  header: 'State',
                  cell: ({ promoted }) =>
                    promoted ? (
                      <StateBadge tone="good" label="Promoted" />
                    ) : (
                      <StateBadge tone="neutral" label="Registered" />
                    ),
                },
                { header: 'From', cell: ({ source }) => (source === 'github' ? 'GitHub' : 'This server') },
                { header: 'Size', align: 'right', cell: ({ size }) => formatBytes(size) },
                { header: 'Registered', cell: ({ createdAt }) => <When at={createdAt} /> },
                {
                  header: 'Actions',
                  align: 'right',
                  cell: (release) => <ReleaseActions release={release} refusal={refusal} />,
                },
              ]}
            />
          )
        }
      </Loaded>
      <UploadDialog opened={isUploading} onClose={uploading.close} />
    </Stack>
  );
}

/** What `latest` means now. */
function Promoted() {
  const pinnable = useQuery(apiQuery('GET /agent-versions/pinnable'));
  return (
    <Loaded query={pinnable} what="Reading what is promoted">
      {({ components }) => (
        <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="sm">
          {(['agent', 'watchdog'] as const).map((name) => (
            <Panel key={name} title={formatWord(name)} label={`Promoted: ${name}`}>
              <Text size="sm">
                {components[name].promoted === null
                  ? 'Nothing is promoted.'
                  : `${components[name].promoted} is promoted.`}{' '}
                {formatCounted(components[name].versions.length, 'version')} can be pinned.
              </Text>
            </Panel>
          ))}
        </SimpleGrid>
      )}
    </Loaded>
  );
}

function ReleaseActions({ release, refusal }: { release: AgentRelease; refusal: string | undefined }) {
  const { id, version, component, promoted } = release;
  const promote = useApiChange('POST /agent-versions/promote', { refreshes: REFRESHES });
  const remove = useApiChange('DELETE /agent-versions/{id}', { refreshes: REFRESHES });
  const button = { size: 'compact-xs', variant: 'subtle' } as const;
  return (
    <Group gap={2} justify="flex-end">
      <ConfirmAction
        {...button}
        color="blue"
        refusal={refusal ?? (promoted ? 'It is promoted already.' : undefined)}
        title={`Promote ${component} ${version}`}
        question="Devices whose policy is “auto” upgrade to it at once, on every platform that has this version. A rollout brings it to the fleet in waves instead."
        confirm="Promote"
        run={() => promote.mutateAsync({ body: { version, component } })}
      >
        Promote
      </ConfirmAction>
      <ConfirmAction
        {...button}
        refusal={refusal ?? (promoted ? 'What is promoted cannot be deleted.' : undefined)}
        title={`Delete ${component} ${version}`}
        question="Devices can no longer upgrade to this release of its platform."
        confirm="Delete"
        run={() => remove.mutateAsync({ params: { id } })}
      >
        Delete
      </ConfirmAction>
    </Group>
  );
}

function SyncFromGithub({ refusal }: { refusal: string | undefined }) {
  const [result, setResult] = useState<Answer<'POST /agent-versions/sync-github'>>();
  const sync = useApiChange('POST /agent-versions/sync-github', { refreshes: REFRESHES });
  return (
    <Stack gap="xs" align="flex-end">
      <Action
        variant="default"
        refusal={refusal}
        loading={sync.isPending}
        onClick={() => sync.mutate({ query: {} }, { onSuccess: setResult })}
      >
        Fetch the latest release from GitHub
      </Action>
      {sync.error !== null && <Failure error={sync.error} />}
      {result !== undefined && (
        <Text size="sm" role="status">
          {result.version}: {result.synced.length} files are registered.{' '}
          {result.failed.map(({ file, reason }) => `${file}: ${reason}`).join(' ')}
        </Text>
      )}
    </Stack>
  );
}
