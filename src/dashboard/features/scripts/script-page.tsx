import { Group, MultiSelect, NumberInput, Select, TextInput } from '@mantine/core';
import { IconDeviceFloppy, IconPlayerPlay, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useCallback, useState } from 'react';
import { ApiError, apiQuery, useApiChange, type Script } from '../../api/index.ts';
import { useNames, useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useMe, useRefusal } from '../../session.ts';
import {
  Action,
  ButtonLink,
  ConfirmAction,
  Failure,
  Loaded,
  Page,
  SYSTEM_NAMES,
  useAddress,
} from '../../ui/index.ts';
import { CodeField, tooLong } from './code-field.tsx';
import { NEW_PARAMETER, ParameterFields } from './parameter-fields.tsx';
import type { Declared } from './parameter-text.ts';
import { RunDialog } from './run-dialog.tsx';
import { LANGUAGE_NAMES, LANGUAGES, SYSTEMS } from './scripts-page.tsx';
import { isName } from './variables.tsx';

const route = getRouteApi('/signed-in/scripts/$scriptId');
const REFRESHES = ['GET /scripts', 'GET /scripts/{id}'] as const;
const ALL = 'all';

export function NewScriptPage() {
  return <ScriptEditor />;
}

/** A saved script: what it does, and running it. */
export function ScriptPage() {
  const { scriptId: id } = route.useParams();
  const script = useQuery(apiQuery('GET /scripts/{id}', { params: { id } }));
  const { search, put } = useAddress(route.useSearch());
  return (
    <Loaded query={script} what="Reading the script">
      {(data) => (
        <ScriptEditor
          key={`${data.id} ${data.updatedAt}`}
          script={data}
          isRunning={search.dialog === 'run'}
          firstGroupId={search.group}
          onRunning={(isOpen) => put({ dialog: isOpen ? 'run' : undefined, group: undefined })}
        />
      )}
    </Loaded>
  );
}

function ScriptEditor({
  script,
  isRunning = false,
  firstGroupId,
  onRunning = () => {},
}: {
  script?: Script;
  /** Whether the form for running it is open. */
  isRunning?: boolean;
  /** The group that this form begins with. */
  firstGroupId?: string | undefined;
  onRunning?: (isOpen: boolean) => void;
}) {
  const open = useNavigate();
  const scope = useScope();
  const me = useMe();
  const names = useNames();
  const organizations = useOrganizations();
  const [name, setName] = useState(script?.name ?? '');
  const [description, setDescription] = useState(script?.description ?? '');
  const [language, setLanguage] = useState<Script['language']>(script?.language ?? 'bash');
  const [content, setContent] = useState(script?.content ?? '');
  const [osTypes, setOsTypes] = useState<Script['osTypes']>(script?.osTypes ?? []);
  const [timeoutSeconds, setTimeoutSeconds] = useState<number | string>(script?.timeoutSeconds ?? 300);
  const [parameters, setParameters] = useState<Script['parameters']>(script?.parameters ?? []);
  const declare = useCallback(
    (named: Declared) => setParameters((before) => [...before, { ...NEW_PARAMETER, ...named }]),
    [],
  );
  const [owner, setOwner] = useState(scope.orgId ?? ALL);
  const mayWrite = useRefusal('scripts:write');
  const mayDelete = useRefusal('scripts:delete');
  const mayRun = useRefusal('scripts:execute');
  const create = useApiChange('POST /scripts', { refreshes: REFRESHES });
  const change = useApiChange('PATCH /scripts/{id}', { refreshes: REFRESHES });
  const remove = useApiChange('DELETE /scripts/{id}', { refreshes: ['GET /scripts'] });
  const isOwnOrg = me.scope === 'organization';
  const isChanged =
    script === undefined ||
    name !== script.name ||
    description !== (script.description ?? '') ||
    language !== script.language ||
    content !== script.content ||
    [...osTypes].sort().join() !== [...script.osTypes].sort().join() ||
    JSON.stringify(parameters) !== JSON.stringify(script.parameters) ||
    timeoutSeconds !== script.timeoutSeconds;
  const missing =
    name.trim() === ''
      ? 'Give the script a name first.'
      : content.trim() === ''
        ? 'Write the script first.'
        : (tooLong(content) ??
          (typeof timeoutSeconds !== 'number'
            ? 'Say after how many seconds the script is ended.'
            : !parameters.every(({ name: each }) => isName(each))
              ? 'Correct the names of the parameters first.'
              : isChanged
                ? undefined
                : 'Nothing has changed.'));
  const error = create.error ?? change.error;
  const faults = error instanceof ApiError ? error.fields : {};
  const faultOf = (field: string) => faults[field];

  const save = async () => {
    const body = {
      name: name.trim(),
      description: description.trim() === '' ? null : description.trim(),
      language,
      content,
      osTypes,
      parameters,
      ...(typeof timeoutSeconds === 'number' ? { timeoutSeconds } : {}),
    };
    if (script !== undefined) {
      await change.mutateAsync({ params: { id: script.id }, body });
      return;
    }
    const orgId = isOwnOrg || owner === ALL ? {} : { orgId: owner };
    const made = await create.mutateAsync({ body: { ...body, ...orgId } });
    await open({ to: '/scripts/$scriptId', params: { scriptId: made.id } });
  };
  return (
    <Page
      title={script?.name ?? 'New script'}
      description={
        script === undefined
          ? undefined
          : script.orgId === null
            ? 'For all organizations'
            : `For ${names.organization(script.orgId)}`
      }
      actions={
        <>
          {script !== undefined && (
            <>
              <ButtonLink variant="default" to="/scripts/runs" search={{ script: script.id }}>
                Runs
              </ButtonLink>
              <ButtonLink variant="default" to="/scripts/schedules" search={{ script: script.id }}>
                Schedules
              </ButtonLink>
              <ConfirmAction
                variant="default"
                refusal={mayDelete}
                icon={IconTrash}
                title={`Delete ${script.name}`}
                question="Where it runs at the moment, it goes on, and its schedules are paused. This cannot be undone."
                confirm="Delete"
                run={async () => {
                  await remove.mutateAsync({ params: { id: script.id } });
                  await open({ to: '/scripts' });
                }}
              >
                Delete
              </ConfirmAction>
              <Action
                variant="default"
                refusal={
                  mayRun ?? (isChanged ? 'Save the changes first: what is saved is what runs.' : undefined)
                }
                icon={IconPlayerPlay}
                onClick={() => onRunning(true)}
              >
                Run
              </Action>
            </>
          )}
          <Action
            refusal={mayWrite ?? missing}
            loading={create.isPending || change.isPending}
            icon={IconDeviceFloppy}
            // The failure is shown below.
            onClick={() => void save().catch(() => undefined)}
          >
            {script === undefined ? 'Save script' : 'Save'}
          </Action>
        </>
      }
    >
      {error !== null && <Failure error={error} />}
      <Group align="flex-start" gap="sm">
        <TextInput
          w={260}
          label="Name"
          required
          maxLength={255}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={faultOf('name')}
        />
        <TextInput
          flex={1}
          miw={220}
          label="Description"
          maxLength={1000}
          value={description}
          onChange={(event) => setDescription(event.currentTarget.value)}
          error={faultOf('description')}
        />
      </Group>
      <Group align="flex-start" gap="sm">
        <Select
          w={160}
          label="Language"
          allowDeselect={false}
          data={LANGUAGES.map((value) => ({ value, label: LANGUAGE_NAMES[value] }))}
          value={language}
          onChange={(next) => setLanguage(LANGUAGES.find((each) => each === next) ?? language)}
          error={faultOf('language')}
        />
        <MultiSelect
          w={280}
          label="Runs on"
          placeholder={osTypes.length === 0 ? 'Any system' : ''}
          data={SYSTEMS.map((value) => ({ value, label: SYSTEM_NAMES[value] }))}
          value={osTypes}
          onChange={(next) => setOsTypes(SYSTEMS.filter((system) => next.includes(system)))}
          error={faultOf('osTypes')}
        />
        <NumberInput
          w={140}
          label="Timeout"
          suffix=" s"
          min={1}
          max={86_400}
          allowDecimal={false}
          value={timeoutSeconds}
          onChange={setTimeoutSeconds}
          error={faultOf('timeoutSeconds')}
        />
        {script === undefined && !isOwnOrg && (
          <Select
            w={240}
            label="For"
            searchable
            allowDeselect={false}
            data={[
              { value: ALL, label: 'All organizations' },
              ...organizations.map((each) => ({ value: each.id, label: each.name })),
            ]}
            value={owner}
            onChange={(next) => setOwner(next ?? ALL)}
            error={faultOf('orgId')}
          />
        )}
      </Group>
      <CodeField
        label="Script"
        description="Runs with the rights of the agent. Parameters are in PARAM_<name>, secrets in SECRET_<name>. Do not write passwords here."
        language={language}
        parameters={parameters}
        onDeclare={declare}
        rows={{ least: 14, most: 32 }}
        value={content}
        onChange={setContent}
        error={faultOf('content')}
      />
      <ParameterFields parameters={parameters} onChange={setParameters} faults={faults} />
      {script !== undefined && isRunning && mayRun === undefined && (
        <RunDialog
          script={script}
          firstGroupId={firstGroupId}
          onClose={() => onRunning(false)}
          onStarted={(runId) => void open({ to: '/scripts/runs/$runId', params: { runId } })}
        />
      )}
    </Page>
  );
}
