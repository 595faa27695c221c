// What a kubelet finds on its machine: a device plugin, and the systemd-logind that announces a shutdown.
//
//	machine plugin RESOURCE NUMBER   registers so many devices; they go when it is killed
//	machine logind                   on the bus of DBUS_SYSTEM_BUS_ADDRESS; SIGUSR1 announces a shutdown, SIGUSR2 that it is off
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	socket  = "tj-test.sock"
	manager = "org.freedesktop.login1.Manager"
	path    = dbus.ObjectPath("/org/freedesktop/login1")
)

func try(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

func (plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return answer, nil
}

func servePlugin(resource string, number int) {
	served := plugin{}
	for i := range number {
		served.devices = append(served.devices, &api.Device{ID: fmt.Sprint("device-", i), Health: api.Healthy})
	}
	for err := register(served, resource); err != nil; err = register(served, resource) {
		log.Print(err) // a kubelet that starts empties the folder
		time.Sleep(time.Second)
	}
	select {}
}

func register(served plugin, resource string) error {
	_ = os.Remove(api.DevicePluginPath + socket) // of one that was killed
	listener, err := net.Listen("unix", api.DevicePluginPath+socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, served)
	go server.Serve(listener)
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	try(err)
	defer connection.Close()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: socket, ResourceName: resource}
	_, err = api.NewRegistrationClient(connection).Register(context.Background(), request)
	if err != nil {
		server.Stop()
	}
	return err
}

type logind struct{}

// The lock is released when the last copy of the other end is closed; nobody waits for that here.
func (logind) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	_, lock, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	return dbus.UnixFD(lock.Fd()), nil
}

func serveLogind() {
	bus, err := dbus.ConnectSystemBus()
	try(err)
	try(bus.Export(logind{}, path, manager))
	properties := prop.Map{manager: {"InhibitDelayMaxUSec": {Value: uint64(60_000_000)}}}
	_, err = prop.Export(bus, path, properties)
	try(err)
	_, err = bus.RequestName("org.freedesktop.login1", dbus.NameFlagDoNotQueue)
	try(err)
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1, syscall.SIGUSR2)
	for which := range told {
		try(bus.Emit(path, manager+".PrepareForShutdown", which == syscall.SIGUSR1))
	}
}

func main() {
	switch {
	case len(os.Args) == 4 && os.Args[1] == "plugin":
		number, err := strconv.Atoi(os.Args[3])
		try(err)
		servePlugin(os.Args[2], number)
	case len(os.Args) == 2 && os.Args[1] == "logind":
		serveLogind()
	default:
		log.Fatal("usage: machine plugin RESOURCE NUMBER | machine logind")
	}
}
