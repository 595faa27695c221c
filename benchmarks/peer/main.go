// The training-operator of Kubeflow as the benchmark's peer: its controller of PyTorchJobs, in its manager, without
// webhooks and their certificates, which one API server without a network to the operator could not call.
package main

import (
	"flag"

	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	controllers "github.com/kubeflow/training-operator/pkg/controller.v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	scheduling "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

func main() {
	qps := flag.Int("kube-api-qps", 20, "as the operator's own flag, whose default this is")
	threads := flag.Int("controller-threads", 1, "as the operator's own flag, whose default this is")
	flag.Parse() // controller-runtime has --kubeconfig
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, kubeflow.AddToScheme, volcano.AddToScheme, scheduling.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerTemplateFile = config.PyTorchInitContainerTemplateFileDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
	cluster := ctrl.GetConfigOrDie()
	cluster.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(*qps), *qps*3/2)
	manager, err := ctrl.NewManager(cluster, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	utilruntime.Must(err)
	utilruntime.Must(controllers.SupportedSchemeReconciler[kubeflow.PyTorchJobKind](
		manager, common.GenNonGangSchedulerSetupFunc(), *threads))
	utilruntime.Must(manager.Start(ctrl.SetupSignalHandler()))
}
