import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { apiQuery, useApiChange } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Failure } from '../../../ui/index.ts';

/** Backs a device up now, by the default configuration of its organization; without any, it offers to make one. */
export function RunBackup({ deviceId, orgId, label }: { deviceId: string; orgId: string; label: string }) {
  const navigate = useNavigate();
  const execute = useRefusal('backup:execute');
  const write = useRefusal('backup:write');
  const configs = useQuery(apiQuery('GET /backup/configs', { query: { orgId, limit: '100' } }));
  const run = useApiChange('POST /backup/jobs/run/{deviceId}', {
    refreshes: ['GET /backup/jobs', 'GET /backup/status/{deviceId}'],
  });
  if (configs.data === undefined) return configs.error === null ? null : <Failure error={configs.error} />;
  const { data } = configs.data;
  const config = data.find(({ isDefault }) => isDefault) ?? (data.length === 1 ? data[0] : undefined);
  if (config === undefined) {
    return (
      <Action
        refusal={write}
        onClick={() => void navigate({ to: '/backup/configurations', search: { org: orgId } })}
      >
        {data.length === 0 ? 'Make a configuration first' : 'Choose a default configuration first'}
      </Action>
    );
  }
  const disabled = config.enabled ? undefined : `The configuration “${config.name}” is switched off.`;
  return (
    <>
      <Action
        refusal={execute ?? disabled}
        loading={run.isPending}
        onClick={() => run.mutate({ params: { deviceId }, body: { configId: config.id } })}
      >
        {label}
      </Action>
      {run.error !== null && <Failure error={run.error} />}
    </>
  );
}
