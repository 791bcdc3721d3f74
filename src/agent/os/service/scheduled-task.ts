import { serviceCommand, type ServicePlace } from './service-place.ts';
import { xmlText } from './xml-text.ts';

export const TASK_NAME = String.raw`\Muster\Agent`;

/**
 * The task for Windows. A Windows service has to answer the service manager within 30 seconds, which Node cannot do
 * without a native program around it; a task that starts with the machine needs none. Pure.
 * @param program  the executable under the path that upgrades replace, because Windows has no link to the current one
 */
export function scheduledTask(place: ServicePlace, program: string): string {
  const [command, ...words] = serviceCommand(place, program);
  return `<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.3" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>Muster agent</Description>
  </RegistrationInfo>
  <Triggers>
    <BootTrigger>
      <Enabled>true</Enabled>
    </BootTrigger>
    <TimeTrigger>
      <Repetition>
        <Interval>PT5M</Interval>
      </Repetition>
      <StartBoundary>2000-01-01T00:00:00</StartBoundary>
      <Enabled>true</Enabled>
    </TimeTrigger>
  </Triggers>
  <Principals>
    <Principal id="System">
      <UserId>S-1-5-18</UserId>
      <RunLevel>HighestAvailable</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <StartWhenAvailable>true</StartWhenAvailable>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Priority>6</Priority>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>999</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="System">
    <Exec>
      <Command>${xmlText(`"${command}"`)}</Command>
      <Arguments>${xmlText(words.map(windowsWord).join(' '))}</Arguments>
    </Exec>
  </Actions>
</Task>
`;
}

/** A word of a Windows command line, by the rules of CommandLineToArgvW. */
export function windowsWord(text: string): string {
  if (text !== '' && !/[\s"]/.test(text)) return text;
  const escaped = text.replace(/(\\*)"/g, String.raw`$1$1\"`).replace(/(\\+)$/, '$1$1');
  return `"${escaped}"`;
}
