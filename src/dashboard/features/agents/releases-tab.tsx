import { Group, Select, SimpleGrid, Stack, Text, List, FileInput, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconShieldLock, IconUpload } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type AgentRelease, type Answer, call, useList } from '../../api/index.ts';
import { useRefusal, useMe } from '../../session.ts';
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
  CopyText,
  FormDialog,
  TextLink,
  Notice,
} from '../../ui/index.ts';
import { releaseTargetOf } from '../../../protocol/index.ts';

type Component = AgentRelease['component'];
const COMPONENTS: readonly Component[] = ['agent', 'watchdog', 'helper', 'backup'];
const SYSTEM = { scopes: ['system'] } as const;
const REFRESHES = ['GET /agent-versions', 'GET /agent-versions/pinnable'] as const;

/** The promoted releases, and all that are registered. */
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
  const releases = useList('GET /agent-versions', { query: { component, page: String(page) } });
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
          <Action refusal={refusal} icon={IconUpload} onClick={uploading.open}>
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

/** The releases to which `latest` resolves now. */
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
  return (
    <Group gap={2} justify="flex-end">
      <ConfirmAction
        inRow
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
        inRow
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

/** Uploads the files of one version, one after the other. What was registered before a failure stays. */
function UploadDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [version, setVersion] = useState('');
  const [files, setFiles] = useState<File[]>([]);
  const [done, setDone] = useState<ReadonlySet<string>>(new Set());
  const queries = useQueryClient();
  const user = useQuery({ ...apiQuery('GET /users/me'), enabled: opened });
  const unknown = files.filter(({ name }) => releaseTargetOf(name) === undefined);
  const submit = async () => {
    if (files.length === 0) throw new Error('Choose the files of the release first.');
    if (unknown.length > 0) throw new Error('Remove the files that are not of a release.');
    try {
      for (const file of files) {
        const target = releaseTargetOf(file.name);
        if (target === undefined) continue;
        const params = { ...target, version: version.trim() };
        await call(
          'PUT /agent-versions/{version}/files/{component}/{os}/{architecture}',
          { params },
          { file: { bytes: file, sha256: await sha256Of(file) } },
        );
        setDone((before) => new Set([...before, file.name]));
      }
    } finally {
      await queries.invalidateQueries({ queryKey: ['GET /agent-versions'] });
      await queries.invalidateQueries({ queryKey: ['GET /agent-versions/pinnable'] });
    }
    setFiles([]);
    setDone(new Set());
  };
  return (
    <FormDialog
      title="Upload a release"
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel="Upload"
    >
      {(faults) => (
        <>
          {user.data?.mfaEnabled === false && (
            <Notice tone="warning" icon={IconShieldLock}>
              Publishing needs two-factor authentication, which your account does not have yet.{' '}
              <TextLink inherit underline="always" to="/profile">
                Set it up first
              </TextLink>
              , so that you choose the files only once.
            </Notice>
          )}
          <TextInput
            label="Version"
            description="Of these files, as the build has printed it, such as 1.4.0 or 1.4.0-rc.2."
            required
            data-autofocus
            value={version}
            onChange={(event) => setVersion(event.currentTarget.value)}
            error={faults['version'] ?? faults['params.version']}
          />
          <FileInput
            label="Files"
            description="As they are built, such as muster-watchdog-linux-x64 and muster-agent-linux-x64.cjs."
            multiple
            value={files}
            onChange={setFiles}
            error={
              unknown.length === 0
                ? undefined
                : `Not named as a file of a release: ${unknown.map(({ name }) => name).join(', ')}`
            }
          />
          {files.length > 0 && (
            <List size="sm" spacing={2}>
              {files.map(({ name, size }) => {
                const target = releaseTargetOf(name);
                return (
                  target !== undefined && (
                    <List.Item key={name}>
                      {formatWord(target.component)} for {SYSTEM_NAMES[target.os]} {target.architecture},{' '}
                      {formatBytes(size)}
                      {done.has(name) && ': registered'}
                    </List.Item>
                  )
                );
              })}
            </List>
          )}
          <Text size="sm" c="dimmed">
            The server signs each file. A stable version that is higher than the promoted one is promoted at
            once, unless the server is set to wait for an administrator.
          </Text>
        </>
      )}
    </FormDialog>
  );
}

/** The server compares it with what arrives. Browsers compute it on pages that came by TLS, or from this machine. */
async function sha256Of(file: File): Promise<string> {
  // Typed as if it were always there.
  const { subtle }: { subtle?: SubtleCrypto } = window.crypto;
  if (subtle === undefined) {
    throw new Error(
      'This page was opened without TLS, where browsers cannot check a file. Open it by https.',
    );
  }
  const hash = new Uint8Array(await subtle.digest('SHA-256', await file.arrayBuffer()));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const BUILD = 'npm run build:agent';
const ADD = 'npm run muster -- releases add dist/agent --version 0.1.0';

/** The ways to a first release. It is shown while nothing can be installed. */
function HowToRegister() {
  const { scope } = useMe();
  const user = useQuery(apiQuery('GET /users/me'));
  if (scope !== 'system') {
    return (
      <Panel title="No agent can be installed yet" label="How to register a release">
        <Text size="sm">
          A system administrator of this server registers a release of the agent first. Until then, enrollment
          shows no install line.
        </Text>
      </Panel>
    );
  }
  return (
    <Panel title="Register the first release" label="How to register a release">
      <Text size="sm">
        The install line downloads the component Watchdog, which brings the agent with it. Each way below is
        enough:
      </Text>
      <List type="ordered" spacing="sm" size="sm">
        <List.Item>
          On the machine of the server, in the folder of Muster and with the variables that the server has,
          such as DATA_DIR. It needs no sign-in:
          <CopyText label="Build and register the agent" text={`${BUILD}\n${ADD}`} />
        </List.Item>
        <List.Item>
          Upload the files that <code>{BUILD}</code> writes into <code>dist/agent</code>, with Upload.
          {user.data?.mfaEnabled === false && (
            <>
              {' '}
              It needs two-factor authentication:{' '}
              <TextLink inherit underline="always" to="/profile">
                set it up in your profile
              </TextLink>
              .
            </>
          )}
        </List.Item>
        <List.Item>
          Fetch the latest release of the repository that <code>GITHUB_RELEASES_URL</code> names in the
          settings of the server.
        </List.Item>
      </List>
    </Panel>
  );
}
